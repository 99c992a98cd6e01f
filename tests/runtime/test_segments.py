"""Bodies in memory that two processes share: they stay as they are while anybody looks."""

import fcntl
import gc
import mmap
import os
import socket
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import sleep, thread_time
from typing import Any

import pytest

from runtime.peering import GET, Simple, engine, inside, know, put
from runtime.test_peer_hostile import FOUND, TOKEN, Stranger
from snowmelt.core.instant import Instant, seconds
from snowmelt.runtime import near
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.peer import Engine, segments
from snowmelt.runtime.peer.asking import Words
from snowmelt.runtime.peer.carriers import Near, Plain, carrier
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX, LARGE, PeerLimits
from snowmelt.runtime.peer.segments import (
    SEGMENT_BYTES,
    Mapped,
    SegmentRegion,
    Segments,
    SharedSegment,
)
from snowmelt.runtime.peer.sharing import FREE_HEAD, PLACE_HEAD, SEGMENT_HEAD
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import Kind, framed
from throwing import Target
from timing import quick_turns, until

MIB = 1 << 20
pytestmark = pytest.mark.skipif(not segments.POSSIBLE, reason="this system has no memory files")


class Own:
    """Segments of which somebody else does what is to be done when a view is gone."""

    def __init__(self, bytes_max: int = 1 << 30) -> None:
        self.words = Words(lambda: None)
        self.segments = Segments(bytes_max, self.words.watch)

    def settle(self) -> None:
        for _ in self.words.take():
            pass


@pytest.fixture
def own() -> Iterator[Own]:
    made = Own()
    yield made
    made.segments.close()


def address(view: memoryview) -> tuple[int, int]:
    """Where a body lies."""
    return id(view.obj), len(view)


def place(own: Own, body: memoryview) -> Any:
    found = own.segments.place_of(body)
    assert found is not None
    return found


# --- one process' own -----------------------------------------------------------------------------


def test_a_place_is_used_again_when_its_last_view_is_gone(own: Own) -> None:
    first = own.segments.room(MIB)
    assert first is not None
    where, part = place(own, first), first[10:20]
    del first
    own.settle()
    second = own.segments.room(MIB)
    assert second is not None
    assert place(own, second) is not where  # a slice of it is seen still
    del part
    own.settle()
    third = own.segments.room(MIB)
    assert third is not None
    assert place(own, third) is where


def test_address_space_goes_to_places_of_another_size_when_it_is_wanted() -> None:
    own = Own(2 * SEGMENT_BYTES)
    told: list[int] = []
    own.segments.borrower(told.append)
    small = [own.segments.room(MIB) for _ in range(2 * SEGMENT_BYTES // MIB)]
    assert None not in small
    assert own.segments.room(4 * MIB) is None
    del small[5:]  # a place of the first is seen still
    own.settle()
    for second in (1, 2):
        assert not told
        assert own.segments.room(4 * MIB) is None
        own.segments.look(Instant(seconds(second)))
    large = own.segments.room(4 * MIB)
    assert large is not None
    assert told == [2]
    assert own.segments.room(MIB) is not None, "the first is as it was"
    own.segments.look(Instant(seconds(3)))
    assert told == [2], "nobody wants more"
    own.segments.close()


def test_a_place_that_was_lent_is_not_used_before_it_comes_back(own: Own) -> None:
    borrower = own.segments.borrower(lambda _: None)
    written = own.segments.written(bytes(MIB))
    assert written is not None
    where = place(own, written)
    own.segments.lend(where, borrower)
    own.segments.lend(where, borrower)  # the same body, given twice
    del written
    own.settle()
    number, at = where.segment.number, where.at
    assert own.segments.give_back(number, at, borrower)
    assert not where.free
    assert own.segments.give_back(number, at, borrower)
    assert where.free
    assert not own.segments.give_back(number, at, borrower)


def lent_and_parted(own: Own) -> tuple[SegmentRegion, int]:
    """A place of a link that has ended, and the descriptor that was shown on it."""
    written = own.segments.written(bytes(MIB))
    assert written is not None
    where, borrower = place(own, written), own.segments.borrower(lambda _: None)
    own.segments.lend(where, borrower)
    shown = where.segment.reader(borrower.number)
    del written
    own.settle()
    own.segments.part(borrower)
    own.segments.look(Instant(seconds(100)))
    assert not where.free
    return where, shown


def test_what_a_process_had_when_its_link_ended_is_used_again_when_it_is_no_more(own: Own) -> None:
    where, shown = lent_and_parted(own)
    child = os.fork()
    if not child:
        sleep(60)
        os._exit(0)
    os.close(shown)
    own.segments.look(Instant(seconds(200)))
    assert not where.free
    os.kill(child, 9)
    os.waitpid(child, 0)
    own.segments.look(Instant(seconds(300)))
    assert where.free


def test_what_is_seen_when_a_link_ends_is_used_again_when_it_is_not(own: Own) -> None:
    where, shown = lent_and_parted(own)
    mapped = Mapped(1 << 30)
    assert mapped.add(where.segment.number, shown)
    view = mapped.view(where.segment.number, where.at, MIB, lambda _: None)
    mapped.close()
    own.segments.look(Instant(seconds(200)))
    assert not where.free
    assert view == bytes(MIB)
    del view
    own.segments.look(Instant(seconds(300)))
    assert where.free


def test_bodies_of_all_sizes_lie_in_places_of_their_own(own: Own) -> None:
    sizes = (LARGE, LARGE + 1, MIB - 1, MIB, 3 * MIB, SEGMENT_BYTES + 1)
    bodies = [os.urandom(size) for size in sizes for _ in range(3)]
    written = [own.segments.written(body) for body in bodies]
    assert written == bodies
    assert all(one is not None and one.readonly for one in written)


def test_there_are_so_many_bytes_and_no_more() -> None:
    own = Own(2 * SEGMENT_BYTES)
    rooms = [own.segments.room(SEGMENT_BYTES) for _ in range(3)]
    assert [room is not None for room in rooms] == [True, True, False]
    own.segments.close()


def test_a_body_at_the_address_of_one_that_is_gone_is_not_taken_for_it(own: Own) -> None:
    room = own.segments.room(MIB)
    assert room is not None
    stranger = memoryview(bytes(MIB))
    own.segments._places[id(stranger.obj)] = place(own, room)
    assert own.segments.place_of(stranger) is None


def test_memory_that_was_free_for_a_while_goes_back(own: Own) -> None:
    written = own.segments.written(b"x" * MIB)
    assert written is not None
    where = place(own, written).segment
    own.segments.look(Instant(seconds(100)))
    own.segments.look(Instant(seconds(150)))
    assert bytes(where.map[:MIB]) == b"x" * MIB  # it is in use
    del written
    own.settle()
    own.segments.look(Instant(seconds(200)))
    own.segments.look(Instant(seconds(211)))
    assert bytes(where.map[:MIB]) == bytes(MIB)
    again = own.segments.written(b"y" * MIB)
    assert again == b"y" * MIB
    del again  # before anybody looks
    own.settle()
    for second in range(212, 230):
        own.segments.look(Instant(seconds(second)))
    assert bytes(where.map[:MIB]) == bytes(MIB)


def test_memory_of_many_places_goes_back_in_a_moment() -> None:
    own = Own()
    rooms = [own.segments.room(LARGE) for _ in range((1 << 30) // LARGE)]
    assert None not in rooms
    del rooms
    own.settle()
    own.segments.look(Instant(seconds(100)))
    begun = thread_time()
    own.segments.look(Instant(seconds(111)))
    assert thread_time() - begun < 1  # nobody is answered meanwhile
    own.segments.close()


def test_where_the_system_has_no_memory_file_to_give_there_is_no_place(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> int:
        raise OSError("no descriptor is left")

    monkeypatch.setattr(os, "memfd_create", refuses)
    assert own.segments.room(MIB) is None
    assert own.segments.written(bytes(MIB)) is None


def test_others_can_read_a_segment_and_not_write_to_it() -> None:
    segment = SharedSegment(1, MIB)
    reader = segment.reader(1)
    with pytest.raises(PermissionError):
        mmap.mmap(reader, segment.size)
    assert os.get_inheritable(reader) is False
    os.close(reader)
    segment.close()


def test_a_system_that_does_not_take_memory_back_ends_nothing() -> None:
    segment = SharedSegment(1, MIB)
    segment.close()
    segment.map = mmap.mmap(-1, SEGMENT_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    segment.empty()
    segment.close()


class Thrown(BaseException):
    """Into a thread, from another."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_thrown_into_one_who_takes_a_place_costs_none() -> None:
    own, taking, over = Own(SEGMENT_BYTES), Event(), False

    def takes() -> None:
        while not over:
            with suppress(Thrown):
                taking.set()  # only from here on it is thrown at
                while not over:
                    own.segments.room(LARGE)

    assert own.segments.room(LARGE) is not None  # all that can be made is
    thread = Thread(target=takes)
    target = Target(thread, taking)
    with quick_turns():
        thread.start()
        for _ in range(1_000):
            until(lambda: target.heard(Thrown))
            target.throw(Thrown)
            own.settle()
        until(lambda: target.heard(Thrown))
        over = True
        thread.join()
    own.settle()
    assert len(own.segments._warm[LARGE]) == SEGMENT_BYTES // LARGE
    own.segments.close()


# --- another's ------------------------------------------------------------------------------------


def memory_file(size: int, seals: int) -> int:
    made = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(made, size)
    fcntl.fcntl(made, segments._ADD_SEALS, seals)
    return made


def test_a_file_that_could_become_shorter_is_not_taken() -> None:
    mapped = Mapped(1 << 30)
    assert not mapped.add(1, memory_file(SEGMENT_BYTES, 0x4))
    assert not mapped.add(1, os.open("/dev/null", os.O_RDONLY))
    assert not mapped.add(1, memory_file(SEGMENT_BYTES - 1, 0x7))  # there could be many of them
    assert mapped.add(1, memory_file(SEGMENT_BYTES, 0x7))
    assert not mapped.add(1, memory_file(SEGMENT_BYTES, 0x7))  # it has that number
    assert not mapped.add(2, memory_file(1 << 30, 0x7))  # that is too much
    mapped.close()


@pytest.mark.parametrize(
    ("number", "at", "size"),
    [
        (2, 0, LARGE),
        (1, -1, LARGE),
        (1, SEGMENT_BYTES, LARGE),
        (1, 0, 0),
        (1, 1 << 63, 1),
        (1, 0, 1 << 63),
    ],
)
def test_a_place_that_is_not_there_is_not_read(number: int, at: int, size: int) -> None:
    mapped = Mapped(1 << 30)
    assert mapped.add(1, memory_file(SEGMENT_BYTES, 0x7))
    assert mapped.view(number, at, size, lambda _: None) is None
    mapped.close()


# --- two engines ----------------------------------------------------------------------------------


def used(of: Segments) -> list[Any]:
    """The places that are not free."""
    return [one for own in list(of._segments.values()) for one in own.places if not one.free]


def test_a_body_is_read_where_it_was_written_and_its_place_used_again() -> None:
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        until(lambda: giver._links.segments.readers)
        bodies = [os.urandom(MIB) for _ in range(40)]
        for body in bodies:
            giver.call(put(giver.written(body)), 5)
            got = taker.call(GET, 10)
            assert got.blob == body
            assert got.blob.readonly
            del got
            gc.collect()
            inside(taker, lambda: None)
            until(lambda: len(used(giver._links.segments)) <= 1)
        assert len(giver._links.segments._segments) == 1
        assert taker.statistics().links.bytes_in < MIB


def test_what_a_program_looks_at_stays_as_it_is_whatever_is_put_meanwhile() -> None:
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        until(lambda: giver._links.segments.readers)
        giver.call(put(giver.written(b"x" * MIB)), 5)
        kept = taker.call(GET, 10).blob[100:200]
        for count in range(40):
            giver.call(put(giver.written(bytes([count]) * MIB)), 5)
            assert taker.call(GET, 10).blob[0] == count
        assert kept == b"x" * 100


def test_what_is_seen_stays_as_it_is_when_its_link_breaks_and_another_is_made() -> None:
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        until(lambda: giver._links.segments.readers)
        giver.call(put(giver.written(b"x" * MIB)), 5)
        kept = taker.call(GET, 10).blob
        inside(taker, lambda: [link.end("broken") for link in list(taker._links._links)])
        until(lambda: giver.statistics().links.links_total == 2 and giver._links.segments.readers)
        for count in range(40):
            giver.call(put(giver.written(bytes([count]) * MIB)), 5)
            assert taker.call(GET, 10).blob[0] == count
        assert kept == b"x" * MIB
        del kept
        until(lambda: not used(giver._links.segments))


def test_what_nobody_can_map_comes_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mapped, "add", lambda _self, _number, descriptor: os.close(descriptor))
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        until(lambda: giver._links.segments.readers)
        giver.call(put(giver.written(b"x" * MIB)), 5)
        taker.submit(GET, lambda _: None)
        until(lambda: not giver._links.segments.readers)  # and was refused, so it is asked again
        giver.call(put(b"y" * MIB), 5)
        assert taker.call(GET, 10).blob == b"y" * MIB


def test_a_link_with_views_is_not_ended_as_one_that_nobody_needs() -> None:
    limits = PeerLimits(unused=seconds(0.2))
    with engine("c-a", limits=limits) as (giver, _), engine("c-b", limits=limits) as (taker, m):
        know(taker, m, giver)
        until(lambda: giver._links.segments.readers)
        giver.call(put(giver.written(b"x" * MIB)), 5)
        got = taker.call(GET, 10)
        sharing = [next(iter(one._links._links)).sharing for one in (giver, taker)]
        assert [one.busy for one in sharing] == [True, True]
        del got
        gc.collect()
        inside(taker, lambda: None)
        until(lambda: not any(one.busy for one in sharing))


# --- one who means harm ---------------------------------------------------------------------------


class NearStranger(Stranger):
    """One raw connection of this machine, who says that he knows of segments."""

    def __init__(self, to: Engine) -> None:
        super().__init__(to)
        self.socket.close()
        reached = near.reach(to.address)
        assert reached is not None
        reached.settimeout(5)
        self.socket = reached
        self.greet()

    def show(self, number: int, *descriptors: int) -> None:
        frame = framed(Kind.SEGMENT, SEGMENT_HEAD.pack(number))
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
        self.socket.sendmsg([frame], passed if descriptors else [])
        for one in descriptors:
            os.close(one)

    def gives(self, number: int, at: int, size: int) -> None:
        head = PLACE_HEAD.pack(number, at, size)
        self.send(framed(Kind.PLACE, head + encode(FOUND)))


@pytest.fixture
def attacked() -> Iterator[tuple[Engine, Simple, NearStranger]]:
    with engine("c-a", credentials=Credentials(token=TOKEN)) as (victim, machine):
        one = NearStranger(victim)
        yield victim, machine, one
        one.socket.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


Attacked = tuple[Engine, Simple, NearStranger]


def test_descriptors_that_nobody_asked_for_are_closed(attacked: Attacked) -> None:
    victim, _, stranger = attacked
    until(lambda: victim._links._links)
    before = descriptors()
    for _ in range(50):
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", files))]
        stranger.socket.sendmsg([framed(Kind.BYTES, b"")], passed)
        for one in files:
            os.close(one)
    until(lambda: descriptors() <= before + 4)
    stranger.socket.close()
    until(lambda: descriptors() < before)


def test_a_segment_that_does_not_come_is_answered_and_its_places_refused(
    attacked: Attacked,
) -> None:
    victim, _, stranger = attacked
    stranger.show(1)
    assert stranger.frame()[0] is Kind.BYTES
    stranger.gives(1, 0, LARGE)
    assert stranger.frame() == (Kind.FREE, FREE_HEAD.pack(1, 0))  # nobody sees it
    assert victim.statistics().links.dropped == {"no segment with its place": 1}
    for _ in range(10):
        stranger.show(2)
    stranger.gives(2, 5, LARGE)
    assert stranger.frame()[0] is Kind.FREE, "what was said once is not said again"


def test_no_body_is_larger_than_one_may_be(attacked: Attacked) -> None:
    _, _, stranger = attacked
    stranger.show(1, memory_file(3 << 30, 0x7))
    stranger.gives(1, 0, (2 << 30) + 1)
    assert stranger.goodbye().error == "TooLarge"


def test_segments_without_end_cost_no_descriptors(attacked: Attacked) -> None:
    victim, _, stranger = attacked
    until(lambda: victim._links._links)
    before = descriptors()
    for number in range(300):
        stranger.show(number, memory_file(mmap.PAGESIZE, 0x7))
    assert stranger.frame()[0] is Kind.BYTES
    until(lambda: descriptors() <= before + 2)


def test_one_who_has_more_said_than_he_reads_loses_his_link(attacked: Attacked) -> None:
    victim, _, _ = attacked
    until(lambda: victim._links._links)
    link = next(iter(victim._links._links))
    much = victim.config.limits.unsent_bytes + FRAME_BYTES_MAX
    assert link.overdue(link.began) is None
    errors = []

    def said() -> None:
        link.outgoing.add_frame(bytes(much + 1))
        errors.append(link.overdue(link.began))  # before any of it is sent

    inside(victim, said)
    assert "slow reader" in str(errors)


def test_descriptors_pass_between_processes_of_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert type(carrier(one)) is Near
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)
        assert type(carrier(one)) is Plain


def test_who_frees_what_is_not_his_loses_his_link(attacked: Attacked) -> None:
    _, _, stranger = attacked
    stranger.send(framed(Kind.FREE, FREE_HEAD.pack(1, 0)))
    assert stranger.goodbye().error == "FrameError"


@pytest.mark.parametrize("kind", [Kind.PLACE, Kind.FREE, Kind.SEGMENT])
def test_half_a_word_costs_the_link(attacked: Attacked, kind: Kind) -> None:
    _, _, stranger = attacked
    stranger.send(framed(kind, b"x"))
    assert stranger.goodbye().error == "FrameError"


def test_bodies_of_another_size_lie_in_segments_again_once_space_was_taken_back() -> None:
    few = PeerLimits(shared_bytes=2 * SEGMENT_BYTES)
    with engine("c-a", limits=few) as (giver, _), engine("c-b", limits=few) as (taker, machine):
        know(taker, machine, giver)

        def moved(size: int) -> bool:
            """Whether it was read where it was written."""
            before = taker.statistics().links.bytes_in
            giver.call(put(bytes(size)), 5)
            assert len(taker.call(GET, 10).blob) == size
            return taker.statistics().links.bytes_in - before < size

        rooms = [giver.room(MIB) for _ in range(2 * SEGMENT_BYTES // MIB)]
        assert moved(MIB - 1) is False  # none is left
        del rooms
        assert moved(MIB)
        until(lambda: moved(4 * MIB - 1))
        assert moved(4 * MIB)
        assert moved(4 * MIB)
