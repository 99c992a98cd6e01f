"""Kills and stops nodes and clients of a priority queue, and lets nodes come and go; judges it.

    python benchmarks/overlay_chaos.py [--nodes 8] [--replicas 3] [--clients 32] [--seconds 120]
        [--every 1.5] [--inject kill,stop,leave,client-kill,client-stop] [--seed 1] [--json]
        [--priorities 4|int|float]

Every node is a process on the loopback. Clients share some processes, four in each: two that block,
in threads, and two on an event loop; of each kind one puts batches of random priorities, and one
gets some items or many, acknowledges them, gives them back, or lets their lease end. Every
`--every` seconds (0: never) something is done to somebody, up to three things at a time, and to
fewer nodes than there are replicas, since all who know what is gone must not be away at once:

    kill         a node is killed with SIGKILL, and started on its disk again half a second later
    stop         a node is stopped (SIGSTOP) for up to 15 s, mostly until after it is missed
    leave        a node is asked to stop, leaves in order, and comes again a little later
    client-kill  a process of clients is killed, and another takes its place
    client-stop  a process of clients is stopped for longer than a lease

A third of what is done to nodes is done to the anchor of just then. In the end all nodes come up,
the queue is emptied, the dead are brought back and counted, and the whole history is judged:
`snowmelt.check` judges one order of all operations, each client's own in its own and none before
what was answered before it was called; most urgent first by that order; one place for each item,
one lease at a time; nothing after an acknowledgement. And an account: what was put was acknowledged
in the load, or was dead, or drained. With any priorities (`--priorities int`, or `float`) orders
are those of phases, which keep no client's own order of what it asks at once.

It ends with 1 when a promise is broken, or a node ends by itself, or the queue can't be emptied.
Then all of this stays in a folder that is told:

    clients-N-LIFE.jsonl    what each process of clients did and saw
    history.jsonl   the same as `snowmelt check` reads it
    events.jsonl    what was done to whom, by the same clock
    *.err           what a process of clients had to say
    nodes/          each node's log and disk

`--plant lost` (or `doubled`, `misplaced`) makes the first process write down what may not be, to
see that it is found.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.overlay_chaos_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # all processes are stopped by now
        raise SystemExit(130) from None
