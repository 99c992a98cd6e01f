"""A priority queue whose nodes and clients are killed and stopped; see `priority_chaos.py`."""
