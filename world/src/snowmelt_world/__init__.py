"""The simulated world: network, disks, clocks and faults, all decided by one seed.

Begin at `world.py`. A *life* (`life.py`) is one run of one family from a seed: a phase with faults,
in which nothing may ever go wrong, then a phase without, in which all must come to rest.
"""
