"""Room for blobs: each link has its turn, and one that is slow or still holds up itself alone."""

import random

import pytest

from snowmelt.core.instant import SECOND, Instant, later, seconds
from snowmelt.protocols.pool.messages import Cancel, ObjectsLent
from snowmelt.runtime.peer.carriers import Secure
from snowmelt.runtime.peer.incoming import Handler, Incoming
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX, LARGE, PeerLimits
from snowmelt.runtime.peer.outgoing import Outgoing
from snowmelt.runtime.peer.segments import Segments
from snowmelt.runtime.peer.sharing import Sharing
from snowmelt.runtime.peer.stores import FRESH, LATE, LOOKS, Stores
from snowmelt.wire.codec import MessageDecoder

SILENT = seconds(2)


class Now:
    """A clock that is set."""

    def __init__(self) -> None:
        self.at = Instant(10 * SECOND)

    def __call__(self) -> Instant:
        return self.at


class Bringer:
    """A link that writes down for what it was given room."""

    def __init__(self, stores: Stores) -> None:
        self.progress = Instant(0)
        self.granted: list[int] = []
        self.given_up = 0
        self._stores = stores

    def room_for(self, number: int) -> None:
        self.granted.append(number)

    def give_up(self) -> None:
        self.given_up += 1
        for number in self.granted:
            self._stores.give(self, number)
        self.granted.clear()

    def offer(self, *sizes: int, first: int = 1) -> None:
        for number, size in enumerate(sizes, first):
            self._stores.offer(self, number, size)

    def done(self, number: int) -> None:
        self.granted.remove(number)
        self._stores.give(self, number)


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def stores(now: Now) -> Stores:
    return Stores(100, SILENT, now)


def passes(stores: Stores, now: Now, duration: int) -> None:
    """Time, with all looks that are due in it."""
    end = now.at + duration
    while now.at < end:
        now.at = Instant(min(end, max(now.at + 1, stores.next_look)))
        stores.look(now.at)


def test_links_have_turns_however_much_one_has_offered(stores: Stores) -> None:
    many, one = Bringer(stores), Bringer(stores)
    many.offer(*[40] * 10)
    one.offer(40)
    assert (many.granted, one.granted) == ([1], [])
    many.done(1)
    many.done(2)
    assert (many.granted, one.granted) == ([], [1]), "before the third of ten"
    one.done(1)
    assert many.granted == [3]


def test_no_link_takes_more_than_it_leaves(stores: Stores) -> None:
    greedy, late = Bringer(stores), Bringer(stores)
    greedy.offer(*[10] * 10)
    assert stores.held == 50
    late.offer(25)
    assert late.granted == [1]


def test_what_is_slow_stands_aside_and_what_comes_after_has_room(stores: Stores, now: Now) -> None:
    slow, quick = Bringer(stores), Bringer(stores)
    slow.offer(60)
    quick.offer(60)
    assert (slow.granted, quick.granted) == ([1], [])
    passes(stores, now, FRESH)
    assert (slow.granted, quick.granted) == ([1], [1])
    quick.done(1)
    quick.offer(*[20] * 5, first=2)
    assert quick.granted == [2], "and the room has its bound still"


def test_a_slow_link_is_given_nothing_more_while_others_wait(stores: Stores, now: Now) -> None:
    slow, quick = Bringer(stores), Bringer(stores)
    slow.offer(*[30] * 9)
    for number in range(1, 50):
        slow.progress = now.at
        quick.offer(30, first=number)
        passes(stores, now, FRESH)
        assert quick.granted == [number]
        quick.done(number)
    assert slow.granted == [1]


def test_blobs_of_a_link_that_stands_still_are_given_up(stores: Stores, now: Now) -> None:
    still, alive = Bringer(stores), Bringer(stores)
    still.offer(30)
    assert stores.take(alive, 1, 30)
    for _ in range(8):
        alive.progress = now.at
        passes(stores, now, seconds(1) // 3)
    assert (still.given_up, alive.given_up) == (1, 0)
    assert stores.held == 30


@pytest.mark.parametrize("brings", [False, True])
def test_a_link_that_talks_and_brings_nothing_keeps_no_room(
    stores: Stores, now: Now, brings: bool
) -> None:
    limits = PeerLimits(begun_bytes=0)
    segments = Segments(0, lambda _, __: None)
    sharing = Sharing(segments, 0, Secure(None), Outgoing(limits), lambda: None)
    incoming = Incoming(limits, stores, Handler(), sharing)
    incoming.admit(FRAME_BYTES_MAX, MessageDecoder.for_peers().decode, lambda _: None)
    incoming.heard = now.at
    sender = Outgoing(limits)
    sender.add(ObjectsLent(1, 1, 0, 1, SILENT, 0.0, (), bytes(LARGE)))

    def comes(count: int = LARGE) -> None:
        incoming.heard = now.at
        for piece in list(sender.pieces()):
            part = piece[:count]
            incoming.feed(part)
            sender.sent(len(part))

    comes()
    assert stores.held == LARGE
    if brings:
        assert sender.granted(1)
        sender.pieces()
    for number in range(8):
        if not brings:
            sender.add(Cancel(number, 1))
        comes(50 if brings else LARGE)
        passes(stores, now, seconds(1) // 3)
    assert stores.held == (LARGE if brings else 0)


def test_what_waits_for_room_has_its_time_from_when_it_has_it(stores: Stores, now: Now) -> None:
    first, second = Bringer(stores), Bringer(stores)
    first.offer(60)
    second.offer(60)
    second.progress = Instant(0)
    passes(stores, now, FRESH)
    assert second.granted == [1]
    first.progress = now.at
    passes(stores, now, LOOKS)
    assert second.given_up == 0


def test_a_look_that_comes_late_judges_nobody(stores: Stores, now: Now) -> None:
    """This process itself stood still, and what came meanwhile is not read yet."""
    link = Bringer(stores)
    link.offer(30)
    passes(stores, now, LOOKS)
    now.at = later(now.at, seconds(30))
    stores.look(now.at)
    assert link.given_up == 0
    now.at = later(now.at, LATE)
    stores.look(now.at)
    assert link.given_up == 1


def test_a_blob_larger_than_the_room_comes_beside_an_unasked_one_that_does_not_end(
    stores: Stores, now: Now
) -> None:
    slow, large = Bringer(stores), Bringer(stores)
    assert stores.take(slow, 1, 5)
    large.offer(300)
    assert large.granted == []
    passes(stores, now, FRESH)
    assert large.granted == [1]
    assert stores.take(slow, 2, 20), "and the part of the unasked is theirs still"
    assert not stores.take(slow, 3, 20)


@pytest.mark.parametrize("seed", range(20))
def test_the_room_has_its_bound_and_all_that_is_offered_comes(seed: int) -> None:
    chance, now = random.Random(seed), Now()
    stores = Stores(100, SILENT, now)
    links = [Bringer(stores) for _ in range(6)]
    offered = [0] * len(links)
    slow = set(chance.sample(range(6), 2))
    for _ in range(400):
        at = chance.randrange(len(links))
        link = links[at]
        if chance.random() < 1 / 2:
            offered[at] += 1
            link.offer(chance.randint(1, 25), first=offered[at])
        elif link.granted and (at not in slow or chance.random() < 1 / 10):
            link.done(chance.choice(link.granted))
        for one in links:
            one.progress = now.at
        passes(stores, now, chance.randrange(FRESH))
        assert stores.held <= 100
    while any(link.granted for link in links):
        for link in links:
            link.progress = now.at
            for number in list(link.granted):
                link.done(number)
    assert stores.held == 0
    assert stores.next_look > now.at + SECOND * 1000, "nothing waits"
