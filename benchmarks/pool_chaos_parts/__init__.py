"""A pool under load whose processes are killed; see `pool_chaos.py`."""
