"""Kills and stops those who hold batons, those who wait, and nodes; judges what they wrote down.

    python benchmarks/baton_chaos.py [--nodes 10] [--workers 12] [--batons 2] [--seconds 120]
        [--inject kill,stop,fork,slow] [--heartbeat 0.3] [--etcd] [--seed 1]
        [--figure FILE] [--json]

Every worker is a process, and so is every node, on the loopback; each worker is connected to
another node. It wants one baton after the other, and acts on the file that this baton guards: the
guard refuses who comes with a smaller fence than the last one. For 25 seconds at a time, every one
to three, one of these is struck: a holder is killed, or stopped with SIGSTOP for longer than its
lease; a waiter is killed, or stopped; a node, or the very node at which a baton is held, is killed
and started again, or stopped for longer than the others have patience, while most of the holders
hold on to what they have; a worker or a node has slow links for some seconds. A holder forks now
and then, and its child must leave the hold alone. Only the coordinator is spared; with `--etcd` an
etcd decides, no node is spared, and whoever leads is killed and stopped, too. Then all is calm
for 15 seconds, and for 21 at the end.

It ends with 1 when a promise is broken: a fence that does not grow, or that two have; somebody sure
to hold what another was granted already; a turn before one who had asked earlier, when it was calm;
a worker that is not served at the end, or waits beyond its time; a value that nobody left, or an
older one than was left or saved. Then all of this stays in a folder that is told:

    worker-N-LIFE.jsonl     what each did
    guarded-BATON.jsonl     what was done under each baton
    events.jsonl    what was done to whom, by the same clock
    lives.json      who was killed, and when
    *.err           what a process had to say
    nodes/          each node's log and disk

`--inject` says which of all this is done; slow links need root and Linux with its `tc`, and are
left out elsewhere.

`--plant old` (or `fence`, `value`, `order`) makes one worker do, or write down, what may not be, to
see that it is found.

`--figure FILE.png` draws the run: what was done to whom, who held each baton, and where it took
long to go on. A folder that was kept can be drawn later:

    python -m benchmarks.baton_chaos_parts.chart FOLDER FILE.png
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.baton_chaos_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # all processes are stopped by now
        raise SystemExit(130) from None
