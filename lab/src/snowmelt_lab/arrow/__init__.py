"""Arrows from arbitrary states, in a small world, judged by one who sees all of it.

`run` (in `experiment`) is an experiment; `world` holds the nodes, `corruption` spoils them,
`legality` and `watch` say whether and since when all is well, and `order` whether the places make
one order. `tracing` and `picture` draw what happens, step by step.
"""
