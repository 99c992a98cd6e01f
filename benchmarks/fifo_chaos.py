"""Injures a real cluster under load, in every way there is, and judges what clients saw.

    python benchmarks/fifo_chaos.py [--nodes 5] [--replicas 3] [--clients 64] [--seconds 120]
        [--every 2] [--inject kill,stop,freeze,cut,sever,full,fail] [--seed 1] [--json]
        [--priorities 1]

It is a fifo, or with `--priorities` a priority queue of so many; 0 are any whole numbers.

Every node is a process on the loopback. Half of the clients put batches, with names and numbers of
their own, and put the same number again while they don't know what became of it; the others get
and acknowledge, and now and then forget a lease. Every `--every` seconds (0: never) something is
done to somebody, up to three things at a time:

    kill     a node is killed with SIGKILL, and started on its disk again half a second later
    stop     a node is stopped (SIGSTOP) for up to 15 s, mostly longer than it takes to be missed
    freeze   a process of clients is stopped for longer than a lease
    cut      two nodes don't hear each other, or one not the other, up to 30 s; all others hear both
    sever    a process of clients hears only some of the nodes, up to 20 s
    full     a node's disk, a small one of its own, is full to the last byte, up to 10 s
    fail     a node's disk says "input/output error" to all, and loses what was not flushed: the
             node must end by itself, unless it is cut off and writes nothing, and is started again
             on what was flushed

Cuts and disks of one's own need Linux and root: each process gets a network namespace, each node a
file system in an image, which go away with the program. In the end all nodes come up, the queue is
emptied, and `snowmelt_world.check` judges the whole history.

A put may wait while its queue has no majority, or its client hears nobody. So the longest is told
twice: of all, and beside enough nodes that were well (`chaos/well.py`).

It ends with 1 when a promise is broken: an item is lost, comes back after it was acknowledged, is
in the queue twice, or is out of order; a node ends by itself; or the queue can't be emptied. Then
all logs, the disks and the history stay in a folder that is told. What they are:

    history.jsonl   what clients saw; `snowmelt check history.jsonl --property conservation`
    events.jsonl    what was done, by the same clock
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
