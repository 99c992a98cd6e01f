"""Snowmelt's fifo beside the queues that others use, in one run on one machine.

A peer is a server that this program starts itself; a cell is one size of item and one size of call;
a turn is one peer's work on one cell. `main` reads the options, `rounds` lets the peers take turns,
`load` is what the client's process does in a turn, and each peer has a file of its own.
"""
