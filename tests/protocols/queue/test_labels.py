"""Labels: a part has those of its items, and lies about them are neither taken nor kept."""

import time
import tracemalloc
from random import Random

import msgspec
import pytest

from snowmelt.core.batch import Batch
from snowmelt.protocols.queue.api.labels import Labels, are_labels, checked, pack, sliced, unpack
from snowmelt.protocols.queue.state.segments import Segment, part_of, stored, unstored

SOON = 4.0
HUGE = b"\xff\xff\xff\xff"
NOTHING = b"\xc0"
LIES = {
    "two of three": b"\x93\x80\xc0",
    "four billion keys": b"\x93\x80\xdd" + HUGE + NOTHING,
    "four billion headers": b"\x93\x80\xc0\xdd" + HUGE,
    "four billion names": b"\x93\xdf" + HUGE,
    "a key of four billion bytes": b"\x93\x80\x91\xc6" + HUGE + NOTHING,
    "a key that is text": b"\x93\x80\x91\xa1k\xc0",
    "headers that are no map": b"\x93\x80\xc0\x91\x91\xc0",
    "a name that is no UTF-8": b"\x93\x81\xa1\xff\xa0\xc0\xc0",
    "a value that is a number": b"\x93\x81\xa1a\x01\xc0\xc0",
    "a nest of arrays": b"\x93\x80" + b"\x91" * 500_000,
    "a nest of maps": b"\x93" + b"\x81\xa1a" * 200_000,
    "a nest in a row": b"\x93\x80\xc0\x91" + b"\x81\xa1a" * 200_000,
    "something after the end": pack(Labels()) + b"\0",
    "no key where there are items": b"\x93\x80\x90\xc0",
    "a key too many": pack(Labels(keys=(None,) * 4)),
    "a row of headers too few": pack(Labels(headers=({},) * 2)),
    "millions of nothing": b"\x93\x80\xdd\x00\x10\x00\x00" + NOTHING * (1 << 20) + NOTHING,
}


def drawn(chance: Random, count: int) -> Labels:
    keys = tuple(chance.choice((None, b"", b"k%d" % at)) for at in range(count))
    headers = tuple(chance.choice((None, {}, {"a": str(at), "ü": ""})) for at in range(count))
    return Labels(
        chance.choice(({}, {"a": "all"})),
        chance.choice((None, keys)),
        chance.choice((None, headers)),
    )


@pytest.mark.parametrize("packed", LIES.values(), ids=LIES)
def test_a_lie_is_refused_at_once(packed: bytes) -> None:
    assert are_labels(packed)
    begun = time.process_time()
    with pytest.raises(ValueError, match=r"."):
        checked(packed, 3)
    assert time.process_time() - begun < SOON


def test_a_lie_is_not_stored_either() -> None:
    batch = Batch.of([b"a", b"b", b"c"])
    segment = Segment(0, bytes(batch.offsets), bytes(batch.blob), pack(Labels(keys=(b"k",))))
    with pytest.raises(ValueError, match="another number of items than 3"):
        unstored(stored(segment), 3)


@pytest.mark.parametrize("seed", range(30))
def test_the_labels_of_a_part_are_those_of_its_items(seed: int) -> None:
    chance = Random(seed)
    count = chance.randrange(1, 12)
    labels = drawn(chance, count)
    packed = pack(labels)
    checked(packed, count)
    assert unpack(packed) == labels
    first = chance.randrange(count)
    stop = chance.randrange(first, count) + 1
    part = unpack(sliced(packed, first, stop))
    assert part.fit(stop - first)
    for index in range(first, stop):
        assert part.of(index - first) == labels.of(index)


def test_a_part_of_a_put_takes_its_own_labels_along() -> None:
    labels = Labels({"all": "x"}, (b"k0", None, b"k2"), (None, {"own": "y"}, {"all": "z"}))
    batch = Batch.of([b"a", b"b", b"c"])
    segment = Segment(10, bytes(batch.offsets), bytes(batch.blob), pack(labels))
    part = part_of(segment, 11, 13, position=50)
    own = unpack(part.headers)
    assert [own.of(0), own.of(1)] == [(None, {"all": "x", "own": "y"}), (b"k2", {"all": "z"})]
    assert part_of(segment, 10, 13, position=50).headers == segment.headers


def test_headers_for_all_go_with_every_part_as_they_are() -> None:
    shared = msgspec.msgpack.encode({"from": "shop"})
    assert not are_labels(shared)
    assert sliced(shared, 1, 2) is shared
    assert unpack(shared).of(7) == (None, {"from": "shop"})
    assert unpack(b"") == Labels()


def test_an_items_own_header_stands_before_that_of_all() -> None:
    labels = Labels({"a": "all", "b": "all"}, headers=({"a": "own"},))
    assert labels.of(0) == (None, {"a": "own", "b": "all"})


def test_large_labels_do_not_stay_in_memory_for_having_been_looked_at() -> None:
    """Each is a quarter of a megabyte as it travels, and two megabytes when it is unpacked."""
    row = (1 << 15).to_bytes(4) + b"\xc4\x06abcdef" * (1 << 15)
    tracemalloc.start()
    try:
        for number in range(10):
            packed = b"\x93\x81\xa1n\xa2%02d\xdd" % number + row + NOTHING
            checked(packed, 1 << 15)
            with pytest.raises(ValueError, match="another number"):
                checked(packed, 3)
            sliced(packed, 0, 1)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 << 20, f"{held} bytes"


def test_the_items_of_a_part_are_not_unpacked_one_by_one() -> None:
    packed = pack(Labels(headers=({"a": "b"},) * 30_000))
    begun = time.process_time()
    assert all(unpack(packed).of(index) == (None, {"a": "b"}) for index in range(30_000))
    assert time.process_time() - begun < SOON


def test_labels_that_are_refused_take_little_memory_and_time() -> None:
    """Fifteen million empty maps are a gigabyte when they are unpacked."""
    count = 15 << 20
    packed = b"\x93\x80\xc0\xdd" + count.to_bytes(4) + b"\x80" * count
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(ValueError, match="another number of items than 200"):
            checked(packed, 200)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20, f"{peak} bytes"
    assert time.process_time() - begun < 2.0


def test_the_labels_of_one_item_have_a_bound() -> None:
    with pytest.raises(ValueError, match="for one item; the limit is 65536"):
        checked(pack(Labels(headers=({"a": "x" * 70_000}, None))), 2)
    with pytest.raises(ValueError, match="for one item; the limit is 65536"):
        checked(pack(Labels(keys=(b"x" * 70_000, None))), 2)
    with pytest.raises(ValueError, match="for one item; the limit is 65536"):
        checked(pack(Labels({"a": "x" * 70_000})), 2)
    checked(pack(Labels(keys=(b"x" * 65_536, None))), 2)
