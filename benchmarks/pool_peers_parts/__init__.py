"""Snowmelt's pool beside the queues that others use, in one run on one machine.

A peer is a queue in some setting, with its server where it has one; a cell is one thing measured,
with so many producers and consumers, each a process of its own; a turn is one peer's work on one
cell. `main` reads the options, `rounds` lets the peers take turns, `turn` starts the processes of a
turn, `work` is what each does, and each peer has a file of its own.
"""
