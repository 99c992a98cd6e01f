"""The end of a run: what is still in the pool is taken out, to the last object on loan."""

import time
from typing import Final

import msgspec
from benchmarks.pool_chaos_parts.consumer import Consumer
from benchmarks.pool_chaos_parts.journal import Journal
from benchmarks.pool_chaos_parts.plan import Plan

import snowmelt

FEW: Final = 8
DRAIN: Final = "drain"
SLACK_SECONDS: Final = 2.0
HOPS: Final = 1_000
"""It asks everybody at once: nearly all producers are empty now."""


def drain(plan: Plan, timeout: float) -> str:
    """Takes all there is, undisturbed; what went wrong, if something did.

    It is empty when nothing came for longer than any loan of a consumer that is gone can last.
    """
    plan = msgspec.structs.replace(plan, kinds=frozenset(), max_hops=HOPS)
    end = time.monotonic() + timeout
    quiet = plan.lease + plan.wait + SLACK_SECONDS
    calm = plan.folder / f"{DRAIN}.jsonl"
    with snowmelt.connect(plan.url) as cluster, Journal(calm) as journal:
        drainer = Consumer(plan, -1, 0, cluster, journal)
        while time.monotonic() < end:
            if not drainer.get(FEW, quiet):
                return ""
    return f"the pool was not empty after {timeout:g} s"
