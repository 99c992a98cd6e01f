"""One core for the client and another for the servers.

Left to the system, both ends share a core in some runs and not in others, and the rates differ
twofold.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

CORES = sorted(os.sched_getaffinity(0))
CLIENT = CORES[0]
SERVER = CORES[1 % len(CORES)]


@contextmanager
def on(core: int) -> Iterator[None]:
    """Processes started within inherit the core, with every thread they will have."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
