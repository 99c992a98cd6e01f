"""What producers and consumers have in common: how each hears what it is to do.

A line on standard input asks for the next step: to stop, then to leave. When standard input ends
without, whoever started the process is gone, and it ends at once.
"""

import os
import sys
from threading import Event, Thread
from typing import Any, Final

import msgspec
from benchmarks.pool_chaos_parts.plan import POOL, Plan

import snowmelt
from snowmelt.client.connection.url import read
from snowmelt.client.pool.parts import join

STDIN: Final = 0


class Words:
    """What this process was told so far."""

    def __init__(self) -> None:
        self.stop = Event()
        self.leave = Event()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        steps = [self.stop, self.leave]
        while steps:
            lines = os.read(STDIN, 100)
            if not lines:
                os._exit(1)
            for _ in lines:
                steps.pop(0).set()


def joined(cluster: snowmelt.Cluster, plan: Plan, **more: Any) -> snowmelt.Pool:
    """A part of its own in the pool, with little room for what is on its way if that is planned."""
    options = plan.options | more
    if plan.tight:
        return snowmelt.Pool(join(POOL, read(plan.url), plan.limits, **options))
    return cluster.pool(POOL, **options)


def arguments() -> tuple[Plan, int, int]:
    """The plan, this process' number, and which of its lives this is."""
    plan, number, life = sys.argv[1:]
    return msgspec.json.decode(plan, type=Plan), int(number), int(life)
