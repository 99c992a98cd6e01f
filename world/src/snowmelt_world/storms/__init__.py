"""Storms: real processes work, faults are done to them, and what clients saw is judged.

Read in this order:

1. `faults`: what can be done, and how a seed draws what is done when (`planned`).
2. `family`: what a family of promises adds: its clients, its properties, its faults.
3. `storm`: does what was drawn, to whoever is there, and lets it heal.
4. `run`: one run from its start to its verdict.

`crowd` starts the processes of clients, each of which begins in `process`. All that a run writes
is in one folder, by one clock (`journals`, `events`), and is all that the judges read. `queues`,
`pool`, `baton` and `spark` are the families.
"""
