"""A cluster under load whose nodes are killed; see `fifo_chaos.py`."""
