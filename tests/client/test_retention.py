"""What waits for longer than a queue keeps it ends, as a program sees it."""

from typing import Any

import pytest

from snowmelt.core.errors import BadOption, CallerError, QueueExists
from timing import until

Queues = Any  # a cluster of either kind


@pytest.mark.parametrize("options", [{}, {"partitions": 2}])
def test_what_waits_ends_and_is_counted(queues: Queues, name: str, options: dict[str, int]) -> None:
    log = queues.fifo(name, retention=1, lease=60, **options)
    log.put_many([b"one", b"two", b"three"])
    held = log.get()
    until(lambda: log.stats().aged == 2)
    told = log.stats()
    assert (told.ready, told.leased, told.put) == (0, 1, 3)
    held.ack()
    log.alter(retention=0)
    log.put(b"for ever")
    assert log.get().body == b"for ever"


def test_a_delay_that_is_longer_is_refused(queues: Queues, name: str) -> None:
    jobs = queues.priority(name, priorities=int, retention=60)
    with pytest.raises(CallerError, match=r"delay is longer than queue .* retention=60"):
        jobs.put(b"late", priority=1, delay=61)
    jobs.put(b"soon", priority=1, delay=59)
    assert jobs.stats().delayed == 1
    with pytest.raises(QueueExists, match="retention=60, asked 61"):
        queues.priority(name, priorities=int, retention=61).put(b"x", priority=1)
    with pytest.raises(BadOption, match=r"retention is 0\.5; allowed: 1 to 315360000 seconds"):
        queues.priority(name, retention=0.5)
