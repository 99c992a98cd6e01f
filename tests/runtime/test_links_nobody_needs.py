"""Links that nobody needs are ended in agreement, and are no loss to anybody (rule 17)."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from select import select
from socket import socket
from time import sleep
from typing import Any

import pytest

from runtime.peering import PATIENCE, Simple
from runtime.test_peer_hostile import Stranger
from snowmelt.core.batch import Batch
from snowmelt.core.instant import milliseconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import Announce, Announced
from snowmelt.protocols.calling import Lost
from snowmelt.protocols.pool.calls import (
    Ack,
    Acquaintances,
    Got,
    Need,
    PoolGet,
    PoolMembers,
    PoolPut,
    Unsent,
    Unused,
)
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.messages import Cancel
from snowmelt.protocols.pool.peer import PoolPeer
from snowmelt.protocols.pool.settings import PoolSettings
from snowmelt.runtime.peer import Engine, PeerConfig, PeerLimits
from snowmelt.wire.codec import MessageDecoder
from snowmelt.wire.framing import Kind, framed
from timing import until

SOON = PeerLimits(unused=milliseconds(60))
ONE = PoolGet(1, 1 << 40, PATIENCE)


class Peer(PoolPeer):
    """A process' part that remembers what it was told."""

    def __init__(self, name: str) -> None:
        super().__init__(NodeId(name), "frames", PoolSettings(), Random(name))
        self.lost: list[NodeId] = []

    def handle(self, event: Any, now: Any) -> Any:
        if isinstance(event, Announced) and isinstance(event.fact, Lost):
            self.lost.append(event.fact.target)
        return super().handle(event, now)


class Asked(Simple):
    """Needs those whom it is told to need."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.needs: set[NodeId] = set()

    def handle(self, event: Any, now: Any) -> list[Any]:
        match event:
            case Announced(Unused(target)):
                return [Announce(Need(target, target in self.needs))]
            case _:
                return super().handle(event, now)


@contextmanager
def running(machine: Any, name: str, limits: PeerLimits = SOON) -> Iterator[Engine]:
    made = Engine(machine, PeerConfig(name=NodeId(name), limits=limits))
    try:
        yield made
    finally:
        made.close(2.0)


@contextmanager
def processes(count: int) -> Iterator[tuple[list[Engine], list[Peer]]]:
    machines = [Peer(f"c-{number}") for number in range(count)]
    with ExitStack() as stack:
        yield [stack.enter_context(running(one, one.me)) for one in machines], machines


def links(one: Engine) -> int:
    return one.statistics().links.links


def hand(consumer: Engine, producers: list[Engine], known: Engine) -> None:
    """Of all these it may probe one."""
    told = tuple(Acquaintance(one.config.name, one.config.name, one.address) for one in producers)
    consumer.announce(PoolMembers(told, (known.config.name,)))


def passed(giver: Engine, taker: Engine) -> Got:
    frame = Batch.of([b"frame"])
    giver.call(PoolPut(bytes(frame.offsets), bytes(frame.blob), PATIENCE), 5)
    got: Got = taker.call(ONE, 5)
    assert (got.producer, bytes(got.blob)) == (giver.config.name, b"frame")
    return got


def test_a_hand_that_changes_leaves_no_links_behind():
    with processes(7) as ((taker, *givers), machines):
        for giver in givers:
            hand(taker, givers, giver)
            taker.call(Ack(passed(giver, taker).token, (), PATIENCE), 5)
        until(lambda: links(taker) == 1)
        until(lambda: [links(one) for one in givers] == [0] * 5 + [1])
        assert not any(machine.lost for machine in machines)
        hand(taker, givers, givers[0])
        passed(givers[0], taker)


def test_a_link_is_kept_while_something_is_on_loan_by_it():
    with processes(3) as ((taker, *givers), machines):
        hand(taker, givers, givers[0])
        got = passed(givers[0], taker)
        hand(taker, givers, givers[1])
        until(lambda: links(taker) == 2)
        sleep(0.5)
        assert links(taker) == 2
        taker.call(Ack(got.token, (), PATIENCE), 5)
        until(lambda: links(taker) == 1)
        assert not any(machine.lost for machine in machines)


def test_whoever_was_told_that_a_link_is_needed_does_not_ask_again():
    with processes(2) as ((taker, giver), _):
        hand(taker, [giver], giver)
        taker.call(Ack(passed(giver, taker).token, (), PATIENCE), 5)
        sleep(0.3)
        before = giver.statistics().links
        sleep(0.5)
        after = giver.statistics().links
        assert (after.links, after.links_total) == (1, 1)
        assert after.frames_out - before.frames_out <= 1


OPEN: list[socket] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """A test that fails leaves no connection for others to stumble over."""
    yield
    while OPEN:
        OPEN.pop().close()


class Other(Stranger):
    """The other side of a link, frame by frame."""

    def __init__(self, to: Engine) -> None:
        super().__init__(to)
        OPEN.append(self.socket)

    def welcomed(self, name: str) -> None:
        self.greet(name, "")

    def hears(self, kind: Kind) -> bytes:
        came, payload = self.frame()
        assert came is kind
        return payload

    def hears_in_the_end(self, kind: Kind) -> bytes:
        """On a slow machine it is asked before whether the link can end."""
        came, payload = self.frame()
        while came is Kind.RELEASE:
            self.send(framed(Kind.KEEP, b""))
            came, payload = self.frame()
        assert came is kind
        return payload


def test_what_is_said_while_the_other_side_is_asked_waits_until_it_needs_the_link():
    machine = Asked("c-a")
    with running(machine, "c-a") as one:
        other = Other(one)
        other.welcomed("c-x")
        machine.producer = NodeId("c-x")
        other.hears(Kind.RELEASE)
        one.call(Cancel(1, 1), 5)
        one.call(Cancel(2, 1), 5)
        other.send(framed(Kind.KEEP, b""))
        words = [MessageDecoder.for_peers().decode(other.hears(Kind.MESSAGE)) for _ in range(2)]
        assert words == [Cancel(1, 1), Cancel(2, 1)]
        assert not machine.lost()
        other.socket.close()


def test_what_is_said_while_the_other_side_is_asked_goes_by_a_new_link_when_that_one_ends():
    machine, there = Asked("c-a"), Asked("c-x")
    with running(machine, "c-a") as one, running(there, "c-x") as two:
        one.call(Acquaintances({NodeId("c-x"): two.address}, ()), 5)
        other = Other(one)
        other.welcomed("c-x")
        machine.producer = NodeId("c-x")
        other.hears(Kind.RELEASE)
        one.call(Cancel(1, 1), 5)
        other.send(framed(Kind.RELEASE, b""))
        until(lambda: there.cancelled == [(NodeId("c-a"), Cancel(1, 1))])
        assert not machine.lost()
        other.socket.close()


def test_a_link_that_ends_without_a_word_while_the_other_side_is_asked_is_lost():
    machine = Asked("c-a")
    with running(machine, "c-a") as one:
        nowhere = Address("127.0.0.1", 1)
        one.call(Acquaintances({NodeId("c-x"): nowhere}, ()), 5)
        other = Other(one)
        other.welcomed("c-x")
        machine.producer = NodeId("c-x")
        other.hears(Kind.RELEASE)
        one.call(Cancel(1, 1), 5)
        other.socket.close()
        until(machine.lost)
        kinds = [type(fact).__name__ for fact in machine.facts]
        assert kinds[-2:] == ["Unsent", "Lost"]


def test_whoever_has_ended_a_link_and_dials_anew_before_that_is_heard_lost_nothing():
    assert any(_went_by_the_second_link() for _ in range(20))


def _went_by_the_second_link() -> bool:
    """Whether the second link was open before the first one's end was heard: either may be."""
    machine = Asked("c-a")
    with running(machine, "c-a") as one:
        first = Other(one)
        first.welcomed("c-x")
        machine.producer = NodeId("c-x")
        first.hears(Kind.RELEASE)
        one.call(Cancel(1, 1), 5)
        second = Other(one)
        second.welcomed("c-x")
        first.send(framed(Kind.RELEASE, b""))
        select([second.socket], [], [], 5.0)
        if any(isinstance(fact, Unsent) for fact in machine.facts):  # rule 5: it is lost then
            return False
        assert not machine.lost()
        assert MessageDecoder.for_peers().decode(second.hears_in_the_end(Kind.MESSAGE)) == Cancel(
            1, 1
        )
        assert machine.reached() == ["c-x", "c-x"]
        first.socket.close()
        second.socket.close()
        return True


def test_a_link_that_the_other_side_asks_to_end_stays_while_it_is_needed():
    machine = Asked("c-a")
    machine.needs.add(NodeId("c-x"))
    with running(machine, "c-a") as one:
        other = Other(one)
        other.welcomed("c-x")
        other.send(framed(Kind.RELEASE, b""))
        other.hears(Kind.KEEP)
        machine.needs.clear()
        other.hears(Kind.RELEASE)  # now it is this side's to ask
        assert not machine.lost()
        other.socket.close()
