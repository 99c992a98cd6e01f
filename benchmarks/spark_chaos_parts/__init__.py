"""A stream from queue to queue whose processes are killed; see `spark_chaos.py`."""
