"""Batons whose holders, waiters and nodes are killed and stopped; see `baton_chaos.py`."""
