"""Histories of all kinds, legal and broken in every way that a test here knows."""

from random import Random

import draw
from test_priority_histories import CORRUPTIONS, drawn

from snowmelt_world.check import History, Kind, Operation

MEMBERS = ("n1", "n2", "n3")


def mixed(seed: int) -> History:
    """Of a fifo, of a priority queue, or of views, by the seed."""
    chance = Random(seed)
    kind = seed % 3
    if kind == 0:
        return draw.history(chance, operations=chance.choice((6, 10, 16)))
    if kind == 1:
        return _urgent(chance)
    return _placed(chance) if seed % 2 else _views(chance)


def _urgent(chance: Random) -> History:
    operations = drawn(chance.random())
    for corrupt, _ in CORRUPTIONS:
        if chance.random() < 0.15:
            try:
                operations = corrupt(operations, chance)
            except (IndexError, StopIteration, TypeError):  # another one left nothing to corrupt
                continue
    if chance.random() < 0.3:
        chance.shuffle(operations)
    return History.of(operations)


def _placed(chance: Random) -> History:
    """With positions, as the product tells them; a few turned or told twice."""
    operations, now = [], 0
    for position in range(chance.randint(2, 12)):
        now += chance.randint(1, 9)
        put = position % 2 == 0 or chance.random() < 0.2
        value = f"v{position // 2 if chance.random() < 0.9 else 0}"
        told = position if chance.random() < 0.9 else chance.randint(0, 12)
        kind = Kind.PUT if put else Kind.GET
        values = () if kind is Kind.GET and chance.random() < 0.1 else (value,)
        span = now - chance.randint(0, 6), now + chance.randint(0, 6)
        began, ended = max(0, span[0]), span[1]
        operations.append(Operation(f"p{chance.randint(1, 3)}", kind, values, began, ended,
            position=told))  # fmt: skip
    return History.of(operations)


def _views(chance: Random) -> History:
    operations, epoch, now = [], 0, 0
    for _ in range(chance.randint(2, 15)):
        now += chance.randint(0, 4)
        epoch = max(0, epoch + chance.choice((0, 0, 1, 1, 1, -1)))
        members = MEMBERS[: 3 if chance.random() < 0.9 else 2]
        process = chance.choice(MEMBERS)
        operations.append(Operation(process, Kind.VIEW, members, now, now + chance.randint(0, 3),
            position=epoch))  # fmt: skip
    return History.of(operations)
