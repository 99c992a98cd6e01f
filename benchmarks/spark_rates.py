"""Spark's sources and sinks beside others on the same rows, measured in one run on one cluster.

    python benchmarks/spark_rates.py --cluster      # a master and two workers; all bars
    python benchmarks/spark_rates.py --cluster --batch-seconds 1 2 5 10 20

Streams of four micro-batches, their own time alone, in rows a second:

- `parquet`: Spark's own files to `noop`, no Python.
- `apart`: a source in Python that has its Arrow batches already, to `noop`, as Spark runs it.
- `memory`: the same in the Pythons that have loaded ours, which sets aside what they have loaded
  (see `snowmelt/spark/settling.py`): it is quicker by that.
- `queues`: four queues to `noop`, acknowledged.
- `through`: four queues into one, staged, flushed and published.

Small micro-batches of 400 rows, in batches a second:

- `one`, `twenty`: of one queue, and of twenty.

The toy tracker (`examples/ufmulti`) with a tenth as many events, in events a second:

- `ufmulti`: its pipeline of three stages with no option given, from the begin of the first
  micro-batch to the end of the last; how long all of it took, with the start of three queries, is
  told as well.
- `kernel`: what its functions reach alone, in a process for each core.

With `--batch-seconds` the pipeline alone is run, its batches aiming at each of these in turn.

With `--cases`, also batches: `snapshot` (a queue by `spark.read`), `sink` (into a queue), and
`nothing` (into a sink in Python that throws away).

The node that flushes what is put shares the machine. For each case the processor time of Spark's
processes, ours and the node is told, which is of use where the clock is not: on a busy machine.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_rates_parts.main import main

if __name__ == "__main__":
    raise SystemExit(main(__doc__.splitlines()[0]))
