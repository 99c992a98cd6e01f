"""A map by pieces holds what a map by positions would, and its records make the same map again."""

from itertools import pairwise
from random import Random

import pytest

from snowmelt.core.interval import Interval
from snowmelt.core.pieces import Pieces

SPAN = 24


def test_an_empty_interval_changes_nothing() -> None:
    changed: dict[bytes, None] = {}
    pieces = Pieces[str](changed, b"p")
    pieces.put(Interval(3, 9), "a")
    changed.clear()
    pieces.put(Interval(5, 5), "b")
    pieces.put(Interval(9, 9), "b")
    pieces.clear(Interval(5, 5))
    assert list(pieces) == [(Interval(3, 9), "a")]
    assert not changed


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_same_as_a_map_by_positions_and_so_is_what_its_records_make(seed: int) -> None:
    chance = Random(seed)
    changed: dict[bytes, None] = {}
    pieces, plain = Pieces[str](changed, b"p"), dict[int, str]()
    disk: dict[int, tuple[int, str]] = {}
    for _ in range(120):
        start = chance.randrange(SPAN)
        interval = Interval(start, chance.randint(start, SPAN))
        if chance.random() < 0.3:
            pieces.clear(interval)
            plain = {at: value for at, value in plain.items() if at not in interval}
        else:
            value = chance.choice("abc")
            pieces.put(interval, value)
            plain.update(dict.fromkeys(interval, value))
        assert {at: value for where, value in pieces for at in where} == plain
        assert_fewest(pieces)
        for key in changed:
            at = int.from_bytes(key[1:])
            there = pieces.at(at)
            disk.pop(at, None)
            if there is not None:
                disk[at] = there[0].stop, there[1]
        changed.clear()
        again = Pieces[str]()
        for at, (stop, value) in disk.items():
            again.restore(Interval(at, stop), value)
        assert list(again) == list(pieces)


@pytest.mark.parametrize("seed", range(40))
def test_many_at_once_are_as_one_by_one(seed: int) -> None:
    chance = Random(seed)
    changed: dict[bytes, None] = {}
    marked: dict[bytes, None] = {}
    pieces, plain = Pieces[str](changed, b"p"), Pieces[str](marked, b"p")
    for _ in range(60):
        edges = sorted(chance.sample(range(3 * SPAN), 2 * chance.randrange(SPAN)))
        some = list(map(Interval, edges[::2], edges[1::2]))
        if chance.random() < 0.4:
            some = chance.choice([some, [where for where, _ in pieces][::2]])
            pieces.clear_all(some)
            for where in some:
                plain.clear(where)
        else:
            values = [(where, chance.choice("abc")) for where in some]
            pieces.put_all(values)
            for where, value in values:
                plain.put(where, value)
        assert list(pieces) == list(plain)
        assert_fewest(pieces)
        assert changed.keys() >= {key for key in marked if plain.at(int.from_bytes(key[1:]))}
        assert changed.keys() == marked.keys()
        changed.clear()
        marked.clear()


def assert_fewest(pieces: Pieces[str]) -> None:
    """Neighbours of one value are one piece."""
    there = list(pieces)
    for (one, value), (other, following) in pairwise(there):
        assert one.stop < other.start or (one.stop == other.start and value != following)
