"""How long operations take as clients and nodes grow: Blizzard, section 3.3, with real processes.

The paper's experiment: each of 1 to 64 clients puts 100 values and gets 100, on 6 to 57 data nodes,
beside a queue on one node; the figure is the time for 100 operations. So here:

1. Every client is a process of its own, started afresh. It connects, and waits at a gate.
2. When all are at the gate it opens. All put; when the last one has put, all get and acknowledge.
3. The parent alone reads a clock, at the gates: seconds for all puts, seconds for all gets.
   `seconds_per_100` is the time of both, over all operations, times 100, as the paper counts.

- `client`: one client's process, and what it needs of a queue.
- `gates`: starting clients together, timing them, and what to do when one dies.
- `plain`: the rival, a queue in one process behind a socket, that keeps nothing on disk: as the
  paper's "basic single node queue implementing a similar remote interface".
- `grid`, `picture`: the whole experiment, and its figure.

Nodes come from whoever calls (`Start`): the lab knows nothing of how a cluster is started.
"""
