"""Kills a stream from queue to queue at random moments, and counts what came out of it by item.

    python benchmarks/spark_chaos.py [--rounds 50] [--seed 1] [--items 20000]
                                     [--nodes] [--older] [--cluster]

Three nodes are processes on the loopback; a feeder puts numbered items into two queues. A Spark
program (driver, Java, Python workers) reads them, changes each a little, and writes them into a
third queue. In each round it is started from its checkpoint and killed with SIGKILL at a random
moment: all of it, the driver alone, or one process of it. With `--nodes` a node is killed in each
round as well, now any, now the master of one of the queues, and started again on its disk. Now and
then the last commit is taken out of the checkpoint, so that a finished batch is done again. With
`--older` the checkpoint is put back by one or more batches, Spark's logs lose their end, and two
programs run on one group: the stream goes on, or is refused in a sentence, and then goes on from
what was newer.

With `--cluster` the work is done by two workers of a standalone master, and of these an executor is
killed, or a worker with it; then in half the rounds more batches have to come before all is ended.

After each round the checkpoint, the group and both queues must fit together to the item, and a
batch that is not acknowledged yet, read once more, must have the rows that came out. In the end
the stream is drained. It ends with 1 when an item is missing, doubled or foreign, when the source
has not heard that all is done, or when a run hangs. Then everything stays in a folder that is told:

    rounds.jsonl    what was done and found in each round
    driver-*.log    what each program had to say
    checkpoint/     the stream's
    nodes/          each node's log and disk
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_chaos_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # nodes and the program are stopped by now
        raise SystemExit(130) from None
