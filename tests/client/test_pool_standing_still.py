"""Nine of ten producers stand still, and nobody is idle beside the tenth for long.

Each producer is a process of its own; four consumers get at once, so that none is lucky for all.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import snowmelt
from client.pool_process import Other
from snowmelt.cli.local import LocalNode
from timing import TRIES

WAIT = 1.0
PRODUCERS = 10
CONSUMERS = 4


class Street:
    """All of them, who know each other."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._threads = stack.enter_context(ThreadPoolExecutor(PRODUCERS))
        others = self._threads.map(lambda _: Other(url, "street", buffers=50), range(PRODUCERS))
        self._still = [stack.enter_context(one) for one in others]
        for one in self._still:
            one.tell("put_sized", first=0, count=50, size=100)
        self._still.pop()  # this one goes on
        clusters = [stack.enter_context(snowmelt.connect(url)) for _ in range(CONSUMERS)]
        self._pools = [one.pool("street", wait=WAIT) for one in clusters]
        for pool in self._pools:
            pool.get().ack()

    def await_all(self) -> None:
        """Until each consumer may ask all of them."""
        for pool in self._pools:
            while sum(one.weight > 0 for one in pool.stats().producers) < PRODUCERS:
                time.sleep(0.01)

    def longest(self) -> float:
        """Nine stand still, and all get: how long the last of them waited.

        What comes may be of one that stands still by now, and he confirms nothing. So all are
        acknowledged when they go on.
        """
        for one in self._still:
            one.pause()
        try:
            came = list(self._threads.map(_timed, self._pools))
        finally:
            for one in self._still:
                one.go_on()
        for _, mine in came:
            mine.ack()
        return max(seconds for seconds, _ in came)


def _timed(pool: snowmelt.Pool) -> tuple[float, snowmelt.Object]:
    begin = time.monotonic()
    mine = pool.get(timeout=10)
    return time.monotonic() - begin, mine


@pytest.fixture
def street(own_node: LocalNode) -> Iterator[Street]:
    with ExitStack() as stack:
        yield Street(own_node.url, stack)


def soon(street: Street, most: float) -> list[float]:
    """The times of as many tries as it takes; a machine that is busy may hold one up."""
    took = []
    while not took or (took[-1] > most and len(took) < TRIES):
        street.await_all()
        took.append(street.longest())
    return took


@pytest.mark.wide
def test_nobody_is_idle_while_nine_of_ten_stand_still(street: Street, own_node: LocalNode) -> None:
    assert min(took := soon(street, 1.2 * WAIT)) <= 1.2 * WAIT, took
    own_node.kill()
    assert min(took := soon(street, 3 * WAIT)) <= 3 * WAIT, took
