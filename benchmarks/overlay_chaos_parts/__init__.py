"""A priority queue whose nodes and clients are killed and stopped; see `overlay_chaos.py`."""
