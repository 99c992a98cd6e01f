"""A consumer that is silent for a lease: what a producer keeps for it, and what it is told."""

from collections.abc import Callable
from time import monotonic, sleep

import msgspec
import pytest

import snowmelt
from client.pool_process import Other, Refused
from snowmelt.cli.local import LocalNode
from snowmelt.core.instant import seconds

SIZE = 48 << 20
"""More than the system keeps of one connection."""
LONG = 60.0


def until(seen: Callable[[], bool]) -> None:
    end = monotonic() + LONG
    while not seen():
        assert monotonic() < end
        sleep(0.02)


def is_nobodys(memory: bytearray) -> bool:
    """Whether nobody looks at it any more: then its size may change."""
    try:
        memory.append(0)
    except BufferError:
        return False
    return True


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_link_keeps_an_object_no_longer_than_its_loan(
    node: LocalNode, name: str, monkeypatch: pytest.MonkeyPatch, delivery: str
) -> None:
    monkeypatch.setenv("SNOWMELT_NEAR", "no")  # of another machine: it would come in pieces
    with (
        snowmelt.connect(node.url) as cluster,
        cluster.pool(name, lease=1, max_bytes=SIZE, delivery=delivery) as pool,
        Other(node.url, name, wait=0, delivery=delivery) as other,
    ):
        links = pool._part.engine._links
        links.limits = msgspec.structs.replace(links.limits, stalled=seconds(3600))
        memory = bytearray(SIZE)
        pool.put(b"first")
        assert other.tell("get") == "first"
        other.begin("hold", timeout=LONG)
        until(lambda: pool.stats().in_line == 1)
        other.pause()
        pool.put(memoryview(memory).toreadonly())
        until(lambda: pool.stats().expired == 1)
        if delivery == "at_least_once":
            pool.get().ack()
        until(lambda: is_nobodys(memory))
        other.go_on()
        pool.put(b"later")
        assert other.answer() == "later"
        if delivery == "at_least_once":
            other.tell("ack")


def test_who_holds_the_interpreter_for_longer_than_the_lease_hears_that_it_is_lost(
    node: LocalNode, name: str
) -> None:
    with (
        snowmelt.connect(node.url) as cluster,
        cluster.pool(name, lease=1) as pool,
        Other(node.url, name) as other,
    ):
        pool.put(b"one")
        assert other.tell("hold") == "one"
        other.begin("hold_interpreter", seconds=5)
        until(lambda: pool.stats().expired == 1)
        with pool.get() as again:
            assert again.body == b"one"
        other.answer()
        with pytest.raises(Refused) as told:
            other.tell("ack")
        assert told.value.args[0] == "LeaseLost"
        pool.put(b"two")
        assert other.tell("hold") == "two"
        other.tell("ack")


def test_who_holds_the_interpreter_for_less_than_the_lease_keeps_what_it_has(
    node: LocalNode, name: str
) -> None:
    with (
        snowmelt.connect(node.url) as cluster,
        cluster.pool(name, lease=120) as pool,
        Other(node.url, name) as other,
    ):
        pool.put(b"one")
        assert other.tell("hold") == "one"
        other.tell("hold_interpreter", seconds=5)
        other.tell("ack")
        assert (pool.stats().settled, pool.stats().expired) == (1, 0)
