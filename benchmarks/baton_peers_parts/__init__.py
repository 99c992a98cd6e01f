"""Snowmelt's baton beside the locks that others use, in one run on one machine.

A peer is a lock in some setting, with its server; a cell is one thing measured, with so many who
want the lock all the time; a turn is one peer's work on one cell. `main` reads the options,
`rounds` lets the peers take turns, `turn` starts the processes of a turn, `work` is what each does,
`holds` is what their logs say, and each peer has a file of its own.
"""
