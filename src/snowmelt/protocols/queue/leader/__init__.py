"""Who leads a partition in one term: it changes the state, and owes an answer for each call.

A file here is one kind of call, or one thing that a leader watches; `leader.py` puts them together,
and `terms.py` begins and ends them. It imports `replication`, `metadata` and what is below, and
neither the controller nor what a follower does.
"""
