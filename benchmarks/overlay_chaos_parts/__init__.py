"""A fifo on the overlay whose nodes and clients are killed and stopped; see `overlay_chaos.py`."""
