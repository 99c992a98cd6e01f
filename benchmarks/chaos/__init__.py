"""A cluster under load that is injured; see `fifo_chaos.py`."""
