"""Snowmelt beside what others use, in one run on one machine: one frame for all comparisons.

A peer is one file: how it is used, and what it promises, stands at its top. A kind of work is one
function, which has one peer do it and says what came of it. A comparison is a table of both
(`fifo`, `priority`, `pool`, `baton`, `jobs`, `failover`, each in a package of its own).

`main` reads the options, `starting` starts the peers, `rounds` lets them take turns, `crew` runs
the clients of a turn in processes of their own, `rows` has medians and ratios, `report` prints
them, `chart` draws them, and `servers` has the servers that several peers use.

    snowmelt bench fifo [--quick] [--peers snowmelt,redis] [--only 100-1] [--rounds 3] [--json]
"""
