"""A stage of the toy tracker on 1, 2, 4 and 8 executors, each with the same small share of a core.

    python benchmarks/spark_scaling.py --plot scaling.png

A master and eight workers are started here, and a node. Raw events go from a queue through the
tracker's reconstruction into another, in micro-batches of so many events for each executor; more
executors get more events, so each has the same to do. While executors start they may take what they
want; then each is bounded to its share, with the worker and the Python it belongs to.

What a micro-batch takes by the clock, and what it takes of the processors of executors, driver
and node, is fitted to `a + b executors + c events` by least squares. The clock counts on a
machine where nothing else runs; on a busy machine say `--by processor`. What a thousand executors
with a whole core each would reach is told by processor time: the driver's part in a row, that of
executors side by side. Needs root, for the shares.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_scaling_parts.main import main

if __name__ == "__main__":
    raise SystemExit(main(__doc__.splitlines()[0]))
