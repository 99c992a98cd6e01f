"""The closed union of injuries the world knows, and how a life's injuries are drawn from its seed.

Kinds are switched on by a coin each before any injury is drawn, so that many lives hold a few kinds
in a strange mixture and few hold all of them: more corners are seen than with everything always on.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import MILLISECOND, SECOND, Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId


class Loss(msgspec.Struct, frozen=True, tag="loss"):
    """Messages vanish, each with this chance."""

    at: Instant
    until: Instant
    rate: float


class Duplication(msgspec.Struct, frozen=True, tag="duplication"):
    """Messages arrive twice, each with this chance."""

    at: Instant
    until: Instant
    rate: float


class Reordering(msgspec.Struct, frozen=True, tag="reordering"):
    """Messages overtake each other, on links that are in order too."""

    at: Instant
    until: Instant


class Delay(msgspec.Struct, frozen=True, tag="delay"):
    """Every message takes up to so much longer."""

    at: Instant
    until: Instant
    extra: Duration


class Partition(msgspec.Struct, frozen=True, tag="partition"):
    """Nothing passes between `side` and the rest; only inwards nothing when `one_way`.

    When `period` is not 0 the cut opens and closes with it: a flapping link.
    """

    at: Instant
    until: Instant
    shape: str
    side: tuple[NodeId, ...]
    one_way: bool = False
    period: Duration = Duration(0)


class Crash(msgspec.Struct, frozen=True, tag="crash"):
    """A process is killed and starts again; some of what it had not flushed is lost."""

    at: Instant
    until: Instant
    node: NodeId
    mid_write: bool = False  # not before it next asks its disk for something


class LostWrites(msgspec.Struct, frozen=True, tag="lost-writes"):
    """The power fails: everything not flushed is lost."""

    at: Instant
    until: Instant
    node: NodeId
    mid_write: bool = False  # not before it next asks its disk for something


class TornRecord(msgspec.Struct, frozen=True, tag="torn-record"):
    """A process is killed in the middle of a write: the last record of it is half there."""

    at: Instant
    until: Instant
    node: NodeId
    mid_write: bool = False  # not before it next asks its disk for something


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """A process stands still, and goes on later as if nothing had been."""

    at: Instant
    until: Instant
    node: NodeId


class SlowNode(msgspec.Struct, frozen=True, tag="slow-node"):
    """A process takes so long for each event."""

    at: Instant
    until: Instant
    node: NodeId
    extra: Duration


class ClockSkew(msgspec.Struct, frozen=True, tag="clock-skew"):
    """A node's clock runs fast or slow, in parts per million."""

    at: Instant
    node: NodeId
    ppm: int


class ClockJump(msgspec.Struct, frozen=True, tag="clock-jump"):
    """A node's steady clock leaps forward, as after the sleep of a laptop."""

    at: Instant
    node: NodeId
    by: Duration


class FlippedBit(msgspec.Struct, frozen=True, tag="flipped-bit"):
    """One bit on a node's disk is not what it was."""

    at: Instant
    node: NodeId


class FullDisk(msgspec.Struct, frozen=True, tag="full-disk"):
    """A node's disk has no room."""

    at: Instant
    until: Instant
    node: NodeId


Fault = (
    Loss
    | Duplication
    | Reordering
    | Delay
    | Partition
    | Crash
    | LostWrites
    | TornRecord
    | Pause
    | SlowNode
    | ClockSkew
    | ClockJump
    | FlippedBit
    | FullDisk
)

Draw = Callable[[Random, Instant, Instant, Sequence[NodeId]], Fault]


def _loss(chance: Random, at: Instant, until: Instant, _: Sequence[NodeId]) -> Fault:
    return Loss(at, until, round(chance.uniform(0.01, 0.3), 3))


def _duplication(chance: Random, at: Instant, until: Instant, _: Sequence[NodeId]) -> Fault:
    return Duplication(at, until, round(chance.uniform(0.01, 0.5), 3))


def _reordering(_: Random, at: Instant, until: Instant, __: Sequence[NodeId]) -> Fault:
    return Reordering(at, until)


def _delay(chance: Random, at: Instant, until: Instant, _: Sequence[NodeId]) -> Fault:
    return Delay(at, until, milliseconds(chance.randrange(10, 5_000)))


def _partition(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    shape = chance.choice(["halves", "isolate-one", "one-way", "flapping"])
    size = 1 if shape == "isolate-one" else chance.randrange(1, max(2, len(nodes)))
    side = tuple(sorted(chance.sample(list(nodes), min(size, len(nodes)))))
    period = milliseconds(chance.randrange(50, 4_000)) if shape == "flapping" else Duration(0)
    return Partition(at, until, shape, side, shape == "one-way", period)


def _crash(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    return Crash(at, until, chance.choice(nodes), chance.random() < 0.5)


def _lost_writes(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    return LostWrites(at, until, chance.choice(nodes), chance.random() < 0.5)


def _torn_record(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    return TornRecord(at, until, chance.choice(nodes), chance.random() < 0.5)


def _pause(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    return Pause(at, until, chance.choice(nodes))


def _slow_node(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    return SlowNode(at, until, chance.choice(nodes), milliseconds(chance.randrange(5, 500)))


def _clock_skew(chance: Random, at: Instant, _: Instant, nodes: Sequence[NodeId]) -> Fault:
    return ClockSkew(at, chance.choice(nodes), chance.randrange(-40_000, 40_000))


def _clock_jump(chance: Random, at: Instant, _: Instant, nodes: Sequence[NodeId]) -> Fault:
    return ClockJump(at, chance.choice(nodes), Duration(chance.randrange(MILLISECOND, 60 * SECOND)))


def _flipped_bit(chance: Random, at: Instant, _: Instant, nodes: Sequence[NodeId]) -> Fault:
    return FlippedBit(at, chance.choice(nodes))


def _full_disk(chance: Random, at: Instant, until: Instant, nodes: Sequence[NodeId]) -> Fault:
    return FullDisk(at, until, chance.choice(nodes))


_DRAWS: Final[dict[str, Draw]] = {
    "loss": _loss,
    "duplication": _duplication,
    "reordering": _reordering,
    "delay": _delay,
    "partition": _partition,
    "crash": _crash,
    "lost-writes": _lost_writes,
    "torn-record": _torn_record,
    "pause": _pause,
    "slow-node": _slow_node,
    "clock-skew": _clock_skew,
    "clock-jump": _clock_jump,
    "flipped-bit": _flipped_bit,
    "full-disk": _full_disk,
}

KINDS: Final = tuple(_DRAWS)


def kinds(words: Sequence[str]) -> tuple[str, ...]:
    """Checks the kinds a person asked for; `all` and `none` are words too.

    >>> kinds(["crash", "loss"])
    ('loss', 'crash')
    """
    if list(words) in (["all"], []):
        return KINDS
    if list(words) == ["none"]:
        return ()
    for word in words:
        if word not in _DRAWS:
            raise BadOption("--faults", word, "all, none, or some of " + ", ".join(KINDS))
    return tuple(kind for kind in KINDS if kind in words)


def draw(
    chance: Random, allowed: Sequence[str], nodes: Sequence[NodeId], end: Instant
) -> tuple[Fault, ...]:
    """The injuries of one life, in the order they begin; all are over at `end`."""
    drawn: list[Fault] = []
    for kind in KINDS:  # every kind draws its coin, so that leaving one out moves no other
        own = Random(chance.getrandbits(64))
        if kind not in allowed or own.random() < 0.5:
            continue
        for _ in range(own.randrange(1, 4)):
            at = Instant(own.randrange(end))
            until = min(later(at, Duration(own.randrange(MILLISECOND, 20 * SECOND))), end)
            drawn.append(_DRAWS[kind](own, at, Instant(until), nodes))
    return tuple(sorted(drawn, key=lambda fault: fault.at))
