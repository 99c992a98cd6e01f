"""Injures producers and consumers of a real pool under load, and judges what they saw.

    python benchmarks/pool_chaos.py [--producers 20] [--consumers 20] [--kill-producers 5]
        [--kill-consumers 5] [--kill-nodes 0] [--stop 6] [--slow 6] [--leave 3] [--seconds 40]
        [--inject kill,stop,fork,slow,limits] [--seed 1] [--json]

Every producer and consumer is a process, and so is each of the three nodes that introduce them, on
the loopback. Objects have 100 B to 2 MB. For some seconds the producers are the faster ones, then
the consumers, and so on. At moments drawn by chance processes are killed with SIGKILL, and start
again a second later; others are stopped with SIGSTOP for longer than a lease, or have slow links
for some seconds, and so do nodes. A process forks now and then, and the child must leave alone
what is its parent's. There is little room for what is on its way, many bodies are as large as may
be, and consumers ask for much at once. Then a few producers leave in order. In the end the
producers stay, and the pool is emptied. Each process has written down what it did, before and after
each step.

It ends with 1 when a promise is broken: an object that was kept by a producer that was not killed
is acknowledged by nobody, an object is got after its acknowledgement was confirmed, a body is not
what was put, or a consumer idled beside a full producer for longer than the pool's `wait` (and
`--slack`). Then all of this stays in a folder that is told:

    producer-N-LIFE.jsonl, consumer-N-LIFE.jsonl, drain.jsonl    what each did
    *.err           what a process had to say
    events.jsonl    what was done to them, by the same clock
    lives.json      who was killed, and when
    nodes/          each node's log and disk

Who is stopped or slow is not judged by the clock meanwhile. `--inject` says which of all this is
done; slow links need root and Linux with its `tc`, and are left out elsewhere.

`--plant lost` (or `doubled`, `damaged`) makes one consumer write down what is not so, to see that
it is found.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pool_chaos_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # all processes are stopped by now
        raise SystemExit(130) from None
