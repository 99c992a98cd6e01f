"""Loaded first in a process that forks workers of Spark: all that these would load themselves.

A session starts a worker for each kind of its questions, and more while it runs. Loading is most of
what such a worker does in a test; here it is done before the fork, once for each kind.
"""

import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    import gc

    import snowmelt.spark.datasource  # noqa: F401

    gc.freeze()
