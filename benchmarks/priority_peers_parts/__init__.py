"""Snowmelt's priority queue beside what people use for one today, in one run on one machine.

The servers, the turns, the rows and the tables are those of `benchmarks/fifo`; each peer here has a
file of its own, whose top says how it is used. `tasks` is one client's process that waits for many
calls at once, and `scale` measures what more nodes move when each has the same small share of a
core.
"""
