"""One topic's messages at one node: order, gaps, what is kept."""

from random import Random
from time import thread_time

import msgspec
import pytest

from snowmelt.protocols.multicast.calls import Position, Publication
from snowmelt.protocols.multicast.topic_log import ZERO, Arrival, TopicLog


def one(number: int, era: int = 7, bodies: tuple[bytes, ...] = (b"x",)) -> Publication:
    return Publication(Position(era, number), 1_000 * era + number, bodies)


def line(messages_max: int = 100, bytes_max: int = 1_000) -> TopicLog:
    return TopicLog(messages_max, bytes_max)


def numbers(line: TopicLog, start: Position = ZERO) -> list[int]:
    return [each.first.number for each in line.read(start, 10_000).publications]


def test_what_comes_in_any_order_goes_on_in_one() -> None:
    for seed in range(50):
        row = line()
        row.take(one(0))
        row.skip()
        coming = [one(number) for number in range(1, 20)]
        Random(seed).shuffle(coming)
        for each in coming:
            assert row.take(each) is Arrival.HERE
            row.check()
        assert numbers(row) == list(range(20))
        assert row.next == Position(7, 20)


def test_nothing_goes_on_over_a_gap_before_it_is_skipped() -> None:
    row = line()
    for number in (0, 1, 3, 4, 6):
        row.take(one(number))
    row.skip()
    assert numbers(row) == [0, 1]
    assert row.early == Position(7, 3)
    assert row.skip() == Position(7, 5)
    assert numbers(row) == [0, 1, 3, 4]


def test_what_was_skipped_is_beyond_and_what_was_handed_on_is_here() -> None:
    row = line()
    for number in (0, 2):
        row.take(one(number))
        row.skip()
    assert row.take(one(1)) is Arrival.BEYOND
    assert row.take(one(0)) is Arrival.HERE
    assert row.take(one(2)) is Arrival.HERE
    assert row.take(one(3, era=6)) is Arrival.BEYOND
    assert numbers(row) == [0, 2]


def test_what_a_node_never_had_before_its_beginning_is_beyond() -> None:
    row = line()
    row.take(one(40))
    row.skip()
    assert row.take(one(39)) is Arrival.BEYOND


def test_a_listener_is_told_of_gaps_and_of_nothing_else() -> None:
    row = line()
    for number in (0, 1, 3):
        row.take(one(number))
        row.skip()
    row.take(one(0, era=8))
    row.skip()

    def missed(start: Position) -> bool:
        return row.read(start, 10_000).missed

    assert missed(ZERO)
    assert missed(Position(7, 1))
    assert missed(Position(7, 2))
    assert missed(Position(7, 3))  # another era follows
    assert missed(Position(7, 4))
    assert not missed(Position(8, 0))
    assert not row.read(Position(7, 0), 2).missed  # what came so far has no gap
    assert row.read(Position(8, 1), 10_000).next == Position(8, 1)


def test_who_has_handed_on_nothing_begins_anywhere_and_others_go_on() -> None:
    row = line()
    row.begin(Position(7, 3))
    assert row.take(one(3)) is Arrival.HERE
    assert row.take(one(2)) is Arrival.BEYOND
    row.begin(Position(9, 0))
    assert row.next == Position(7, 4)
    assert not row.read(Position(7, 3), 100).missed


def test_only_the_newest_are_kept_and_the_rest_is_missed() -> None:
    row = line(messages_max=8)
    for number in range(100):
        row.take(one(number))
        row.skip()
        row.trim()
    kept = numbers(row)
    assert 8 <= len(kept) <= 9
    assert kept[-1] == 99
    assert row.read(Position(7, 3), 10_000).missed
    assert row.known(7_003) is None
    known = row.known(7_099)
    assert known is not None
    assert known.first == Position(7, 99)
    assert row.take(one(3)) is Arrival.HERE


def test_another_message_at_the_same_place_is_beyond() -> None:
    row = line()
    row.take(one(0))
    row.skip()
    row.take(one(2, bodies=(b"x", b"y")))
    other = Publication(Position(7, 0), 5, (b"other",))
    assert row.take(other) is Arrival.BEYOND
    assert row.take(msgspec.structs.replace(other, first=Position(7, 2))) is Arrival.BEYOND
    row.skip()
    assert row.take(msgspec.structs.replace(other, first=Position(7, 3))) is Arrival.BEYOND
    assert numbers(row) == [0, 2]
    assert row.take(one(0)) is row.take(one(2, bodies=(b"x", b"y"))) is Arrival.HERE


def test_messages_that_share_places_stand_in_nobodys_way() -> None:
    row = line()
    row.take(one(0))
    row.skip()
    for each in (one(3), one(1, bodies=(b"x", b"y", b"z")), one(4)):
        row.take(each)
        row.check()
    assert numbers(row) == [0, 1, 4]


def test_bytes_count_too() -> None:
    row = line(bytes_max=100)
    for number in range(100):
        row.take(one(number, bodies=(bytes(30),)))
        row.skip()
        row.trim()
    assert 90 <= row.bytes <= 112


def test_one_answer_has_as_much_as_fits_and_one_at_least() -> None:
    row = line(bytes_max=10_000)
    for number in range(10):
        row.take(one(number, bodies=(bytes(30),)))
        row.skip()
    assert len(row.read(ZERO, 65).publications) == 2
    assert len(row.read(ZERO, 1).publications) == 1
    assert row.read(ZERO, 65).next == Position(7, 2)


@pytest.mark.parametrize("own", [False, True])
def test_too_much_that_is_early_finds_no_room_but_what_is_awaited_does(own: bool) -> None:
    row = line(messages_max=5)
    for number in range(10, 15):
        assert row.take(one(number)) is Arrival.HERE
    late = row.take(one(15), own=own)
    assert late is (Arrival.HERE if own else Arrival.NO_ROOM)
    assert row.take(one(9)) is Arrival.HERE


def test_a_publication_of_many_bodies_takes_as_many_positions() -> None:
    row = line()
    row.take(one(0, bodies=(b"a", b"b", b"c")))
    row.skip()
    row.take(one(3))
    assert numbers(row) == [0, 3]
    assert not row.read(Position(7, 0), 100).missed


def test_a_line_full_of_what_comes_too_early_refuses_more_at_once() -> None:
    """A member may say so in every word: each look at all of it was a third of a second."""
    row = line(messages_max=10_000, bytes_max=1 << 20)
    row.take(one(0))
    row.skip()
    for number in range(10_000, 20_000):
        assert row.take(one(number)) is Arrival.HERE
    begin = thread_time()
    for number in range(20_000, 22_000):
        assert row.take(one(number)) is Arrival.NO_ROOM
        assert row.furthest == Position(7, 20_000)
        assert row.early == Position(7, 10_000)
    assert thread_time() - begin < 0.3


def test_what_comes_too_early_is_known_by_its_ends_however_it_leaves() -> None:
    for seed in range(30):
        chance, row = Random(seed), line(bytes_max=10_000)
        row.take(one(0))
        row.skip()
        for _ in range(200):
            bodies = (b"x",) * chance.randrange(1, 6)
            row.take(one(chance.randrange(1, 300), bodies=bodies))
            if chance.random() < 0.05:
                row.skip()
            row.check()
