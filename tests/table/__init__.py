"""The table of calls and disturbances: what is tried round every public call, and what is not.

A **row** is a public call of a kind of queue; `faces.py` finds them in the faces themselves, so a
new method is a new row. `recipes/` says of each how it is made and what is true afterwards.
A **column** is something that happens round a call (`columns/`): a signal, a fork, a silent node.
A **cell** is the one in the middle of the other, in a real program on real nodes, with an exact
account (`account.py`): the call ends in time, with its answer or an error of ours; what was told is
true; the next call works. A cell counts as covered only when a **plant** (`plants.py`), a wrong
behaviour that is reached through that very call, makes it fail.

`program.py` runs cells, `page.py` writes their outcomes to `docs/research/reliability.md`.
`known.py` has the cells that fail today, and why. How to add a row is said in `recipes/`.
"""
