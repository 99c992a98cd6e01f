"""The three stages, each a function that a process runs; a pool joins each with the next."""

import time
from multiprocessing import SimpleQueue
from typing import Any

import snowmelt
from stages.event import SHAPE, calibrate, energy, make

IDLE = 3.0
"""Seconds without an event, after which a stage ends."""


def detect(url: str, detector: int, count: int) -> None:
    """Makes events, each in the memory in which the next stage reads it."""
    with snowmelt.connect(url) as cluster:
        events = cluster.pool("events", producer=f"detector-{detector}")
        for number in range(count):
            with events.room(SHAPE, "uint32", timeout=60) as room:
                make(room, detector, number)
        emptied(events)


def calibrated(url: str) -> None:
    """Takes an event wherever it is, and makes another of it; the first one is done then."""
    with snowmelt.connect(url) as cluster:
        events, made = cluster.pool("events"), cluster.pool("calibrated")
        for event in events.consume(timeout=IDLE):
            with made.room(SHAPE, "float32", timeout=60) as room:
                calibrate(event.body, room)
        emptied(made)


def counted(url: str, told: "SimpleQueue[Any]") -> None:
    """Looks at what was calibrated."""
    with snowmelt.connect(url) as cluster:
        for event in cluster.pool("calibrated").consume(timeout=2 * IDLE):
            told.put(energy(event.body))
        told.put(None)


def emptied(pool: snowmelt.Pool) -> None:
    """Stays until all was used: an object lives where it was made."""
    while (has := pool.stats()).stock + has.on_loan:
        time.sleep(0.02)
