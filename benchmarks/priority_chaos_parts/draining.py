"""The end of a run: everybody is up, and the queue is emptied, to the last leased and dead item."""

import time
from random import Random
from typing import Final

from benchmarks.chaos.journals import Journal
from benchmarks.priority_chaos_parts.client import Consumer, told_of
from benchmarks.priority_chaos_parts.faces import Blocking, finished
from benchmarks.priority_chaos_parts.journal import Note, What
from benchmarks.priority_chaos_parts.plan import Plan

import snowmelt
from snowmelt.client.overlay import face as overlay
from snowmelt.client.overlay.steps import OverlayStatus
from snowmelt.core.errors import SnowmeltError

DRAIN: Final = "drain"
GET_ITEMS: Final = 5000
WAIT_SECONDS: Final = 1.0


def drain(plan: Plan, timeout: float) -> str:
    """Empties the queue; what went wrong, if something did."""
    with (
        snowmelt.connect(plan.url) as cluster,
        Journal(plan.folder / f"{DRAIN}.jsonl") as journal,
    ):
        told = told_of(plan)
        queue = overlay.OverlayQueue(cluster._queues, told)  # noqa: SLF001
        note = Note(journal, DRAIN)
        consumer = Consumer(plan, Blocking(queue, told), note, Random(plan.seed))
        return _emptied(queue, consumer, note, time.monotonic() + timeout)


def _emptied(queue: overlay.OverlayQueue, consumer: Consumer, note: Note, end: float) -> str:
    wrong, empty = "no time was left", False
    while time.monotonic() < end:
        finished(_take(consumer))
        try:
            status = queue.stats()
            if _empty(status):
                if empty:
                    note(What.EMPTIED)
                    return ""
                empty = True  # what has come back just now may be on its way to the anchor
                continue
            empty = False
            wrong = f"{status}"
            if status.dead and not (status.ready or status.leased or status.delayed):
                note(What.REDRIVEN, most=queue.redrive())
        except SnowmeltError as error:
            wrong = f"{type(error).__name__}: {error}"
    return f"the queue was not empty in time: {wrong}"


async def _take(consumer: Consumer) -> None:
    while await consumer.take(GET_ITEMS, WAIT_SECONDS, whole=True) > 0:
        pass


def _empty(status: OverlayStatus) -> bool:
    return not (status.ready or status.leased or status.delayed or status.dead)
