"""Loaded first in a Python that Spark starts: it is forked from one that has loaded what it needs.

A session starts a process for each kind of its questions, and one for each stream that it reads.
Loading is most of what these do in a test. So:

1. The first that Java starts to fork workers loads all that any of them needs. It then forks one
   that waits, and forks others.
2. What the same Java starts later asks that one: it hands over its words, its variables and its
   ends, and lives as long as what is forked for it.
3. What was forked is killed when who asked is killed.
4. Where nobody forks, each loads for itself.
"""

import sys

WORKERS, STREAM = "pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner"

if sys.platform == "linux" and sys.orig_argv[1:3] in (["-m", WORKERS], ["-m", STREAM]):
    import forking

    forking.begin(first=sys.orig_argv[2] == WORKERS)
