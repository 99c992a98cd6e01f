"""Kills the nodes of a real cluster, one after another, under load, and judges what clients saw.

    python benchmarks/fifo_chaos.py [--nodes 5] [--replicas 3] [--clients 64] [--seconds 120]
        [--kill-every 2] [--seed 1] [--json]

Every node is a process on the loopback. Half of the clients put batches, with names and numbers of
their own, and put the same number again while they don't know what became of it; the others get
and acknowledge, and now and then forget a lease. Every `--kill-every` seconds (0: never) one node,
whichever it is, is killed with SIGKILL and is started on its disk again half a second later. In
the end all nodes come up, the queue is emptied, and `snowmelt.check` judges the whole history.

It ends with 1 when a promise is broken: an item is lost, comes back after it was acknowledged, is
in the queue twice, or is out of order; a node ends by itself; or the queue can't be emptied. Then
all logs, the disks and the history stay in a folder that is told. What they are:

    history.jsonl   what clients saw; `snowmelt check history.jsonl --property conservation`
    events.jsonl    what was done to the nodes, by the same clock
    nodes/          each node's log and disk
    client-*.err    what a process of clients had to say
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.chaos.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # nodes and clients are stopped by now
        raise SystemExit(130) from None
