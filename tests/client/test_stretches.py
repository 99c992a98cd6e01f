"""What came as one piece of many stretches is what it would be as a piece for each of them."""

from random import Random

import pytest

from snowmelt.client.coalescing.joint_gets import dealt
from snowmelt.client.leases.delivered import (
    ItemSelection,
    LeasedItems,
    in_order,
    items_of,
    joined,
    label_of,
    portion,
    priority_of,
    put_at_of,
)
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core import times
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.keys import packed
from snowmelt.core.spans import places, spans

Stretch = tuple[int, list[int], list[bytes]]
"""Where it begins, and the keys and bodies of its items."""


def drawn(dice: Random) -> tuple[list[ItemSelection], list[ItemSelection]]:
    """The same items of some homes: a portion for each stretch, and for each home."""
    single: list[ItemSelection] = []
    gathered: list[ItemSelection] = []
    kind = Ranks("jobs")
    at, homes = 0, dice.choice((1, 3))
    rows: list[list[Stretch]] = [[] for _ in range(homes)]
    for number in range(dice.choice((2, 9, 30))):
        at += 2 + dice.randrange(5)
        count = dice.choice((1, 1, 4))
        keys = [dice.choice((7, dice.randrange(-50, 50))) for _ in range(count)]
        rows[number % homes].append((at, keys, [b"%d" % dice.randrange(9999) for _ in keys]))
        at += count
    for row in rows:
        for start, keys, bodies in row:
            one = Batch.of(bodies)
            put = times.whole(len(keys), 1_000_000_000 + start)
            single.append(
                ItemSelection(
                    start, bytes(one.offsets), bytes(one.blob), b"", 2, "why", put, packed(keys),
                    kind=kind,
                )
            )  # fmt: skip
        if row:
            whole = Batch.of([body for _, _, bodies in row for body in bodies])
            stops = [start + len(keys) for start, keys, _ in row]
            put = b"".join([times.whole(len(keys), 1_000_000_000 + at) for at, keys, _ in row])
            gathered.append(
                ItemSelection(
                    row[0][0], bytes(whole.offsets), bytes(whole.blob), b"", 2, "why", put,
                    packed([key for _, keys, _ in row for key in keys]),
                    spans([start for start, _, _ in row], stops), kind,
                )
            )  # fmt: skip
    return single, gathered


def told(parts: tuple[ItemSelection, ...]) -> list[object]:
    return [
        (body, place, priority_of(part, place), put_at_of(part, place), label_of(part, place),
         part.failures, part.reason)
        for part, body, place in items_of(parts)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_one_piece_of_many_stretches_is_each_of_them(seed: int) -> None:
    dice = Random(seed)
    single, gathered = (tuple(some) for some in drawn(dice))
    assert told(gathered) == told(single)
    assert told(in_order(gathered)) == told(in_order(single)) == told(single)
    assert list(joined(gathered)) == list(joined(single))
    one, other = (
        LeasedItems(7, parts, seconds(30), Instant(10**12)) for parts in (gathered, single)
    )
    assert (one.positions, one.left, len(one)) == (other.positions, other.left, len(other))
    total = len(one)
    wants = [1, total // 3, 2]
    hands = zip(dealt(in_order(gathered), wants), dealt(in_order(single), wants), strict=True)
    assert all(told(ours) == told(theirs) for ours, theirs in hands)  # type: ignore[arg-type]


def test_some_of_a_piece_have_its_keys_times_and_places() -> None:
    _, (whole, *_) = drawn(Random(4))
    count = len(places(whole.spans))
    for first in range(count):
        for stop in range(first + 1, count + 1):
            some = portion(whole, first, stop)
            assert isinstance(some, ItemSelection)
            assert (
                sorted(told((some,)), key=lambda one: one[1])
                == sorted(  # type: ignore[index]
                    told((whole,)),
                    key=lambda one: one[1],  # type: ignore[index]
                )[first:stop]
            )
