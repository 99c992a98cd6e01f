"""Who put what before: the memory that keeps a retry from being a second item.

1. A producer numbers its puts. The numbers that were put are an interval set, exact, which stays
   one interval as long as they come without gaps; of the last few it is remembered where they
   went, so that a retry is told the same.
2. A number that was refused is remembered with who asked: the refusal holds for every attempt of
   that caller's turn and of its earlier ones, whenever it arrives. A later turn is a new try. When
   there are so many that the callers can't all be kept, the oldest numbers are closed to everybody.
3. No number is ever guessed about. With too many intervals of 1 and 2 the lowest are given up:
   below them, what was put can't be told from what was not, and every number there is refused.
   Whoever uses numbers that grow never meets this.
4. A producer that named itself is remembered for ever, any other for a day after its last put, or
   after this leader began. That is longer than any of its numbers lives: a client that has made up
   its name asks under one number for some hours at most (`client/fifo/steps.py`).
"""

from collections import OrderedDict
from collections.abc import Container, Iterator
from typing import Final

import msgspec

from snowmelt.core.ahead import Count, Number
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits

_UNNAMED_PREFIX: Final = "c-"
"""How the names that clients make up for themselves begin; no person's choice may."""
FORGET_AFTER: Final = 86_400 * 10**9
LOOK_EACH: Final = 10**9
"""So often it is looked whether one is to be forgotten."""
Edges = tuple[Count, ...]
"""Where the items of a put are, by priority: a start, its stop, the next start."""
NOT_REMEMBERED: Final = (0, 0)
PACKED_MAX: Final = 16 << 10
"""Bytes of what is said of that: it is written with each put, and some go to many places."""

HEAD: Final = b"p"
NUMBERS: Final = b"n"
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def is_unnamed(producer: str) -> bool:
    """Whether a client made this name up for itself.

    >>> is_unnamed("c-x1"), is_unnamed("shop/c-x1"), is_unnamed("shop/loader")
    (True, True, False)
    """
    return producer.rpartition("/")[2].startswith(_UNNAMED_PREFIX)


def owner_of(producer: str) -> str:
    """The user to whom this name belongs; nothing where there is one user.

    >>> owner_of("shop/loader"), owner_of("loader")
    ('shop', '')
    """
    return producer.rpartition("/")[0]


class ProducerState(msgspec.Struct):
    seen: int
    """When it last heard anything, by the wall clock."""
    recent: dict[int, Edges] = {}
    """Where its last numbers went."""
    packed: bytearray = msgspec.field(default_factory=bytearray)
    """The same, one by one, as its record has them: that is written at each put, and they are many;
    so each is packed once. Nothing when it must be done anew."""
    refused: dict[int, dict[str, int]] = {}
    """By number: who was refused, up to which of its turns."""
    numbers: IntervalSet = msgspec.field(default_factory=IntervalSet)
    closed: IntervalSet = msgspec.field(default_factory=IntervalSet)
    """Numbers that were refused to everybody, for good."""
    floor: int = 0
    """Below this, nothing is known but what is recent."""
    folded: bool = False
    """Whether some of its numbers stand in no record but the second."""


class ProducerSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A producer's first record: what came since its second was written, and a little more."""

    numbers: tuple[Interval, ...]
    """Those that an earlier version wrote here."""
    recent: dict[Count, Edges]
    seen: Number
    refused: dict[Count, dict[str, Count]] = {}
    floor: Count = 0
    """It rises between two writings of the second record, and what it refuses stays refused."""


class KeptNumbers(msgspec.Struct, frozen=True, array_like=True):
    """Its second record, which may be long, and is written seldom."""

    numbers: tuple[Interval, ...]
    closed: tuple[Interval, ...]
    floor: Count


class Producers:
    """All producers of one queue.

    >>> producers = Producers({})
    >>> producers.note("loader", 7, (20, 30), wall=0)
    >>> producers.earlier("loader", 7), producers.earlier("loader", 8)
    ((20, 30), None)
    """

    def __init__(self, changed: dict[bytes, None], limits: QueueLimits = LIMITS) -> None:
        self._changed = changed
        self._limits = limits
        self._known: dict[str, ProducerState] = {}
        self._named = SharesHeld[str]()
        """How many of those that named themselves each user has."""
        self._unnamed: OrderedDict[str, None] = OrderedDict()
        """Whoever was heard of last stands last."""
        self._since: int | None = None
        self._look_at = 0

    def __len__(self) -> int:
        return len(self._known)

    # --- what is known of a number ----------------------------------------------------------------

    def earlier(self, name: str, number: int) -> Edges | None:
        """Where this put went when it was admitted before; `NOT_REMEMBERED` when long ago."""
        known = self._known.get(name)
        if known is None:
            return None
        where = known.recent.get(number)
        return NOT_REMEMBERED if where is None and number in known.numbers else where

    def is_new(self, name: str, number: int) -> bool:
        """Whether a producer is known and nothing speaks against this number of it (rules 1 to 3).

        As of nearly every put: it answers in one what the others are asked for one by one.
        """
        known = self._known.get(name)
        return (
            known is not None
            and number >= known.floor
            and number not in known.recent
            and number not in known.refused
            and number not in known.numbers
            and (known.closed.total == 0 or number not in known.closed)
        )

    def lately(self, name: str) -> Container[int]:
        """Of which of its numbers it is known where they went."""
        known = self._known.get(name)
        return () if known is None else known.recent

    def was_refused(self, name: str, number: int, caller: str, turn: int) -> bool:
        """Whether this turn was refused, or a later one of the same caller (rule 2)."""
        known = self._known.get(name)
        if known is None or number not in known.refused:
            return False
        return turn <= known.refused[number].get(caller, -1)

    def past(self, name: str, number: int) -> str:
        """Why nothing can be put under a number that is not known to be put (rules 2 and 3)."""
        known = self._known.get(name)
        if known is not None and number < known.floor:
            return (
                f"sequence is {number}; of producer {name!r} nothing below {known.floor} is known "
                f"any more, since its numbers have more than {self._limits.producer_gaps} gaps: "
                "nothing was put now, and it may have been put before; use numbers that grow"
            )
        if known is not None and number in known.closed:
            return (
                f"sequence is {number}, which was refused to producer {name!r} before, and too "
                "many others since: it was never put, and will not be; use a larger one"
            )
        return ""

    def crowded(self, name: str) -> str:
        """Why there can't be one more producer; nothing for one that is known, or has room."""
        if name in self._known:
            return ""
        limits, user, named = self._limits, owner_of(name), self._named
        if is_unnamed(name):
            there = len(self._unnamed)
            if there < limits.clients:
                return ""
            return f"{there} clients put into this queue within a day; no more are remembered"
        there = named.total
        if named.has_room(user, 1, limits.producers) if user else there < limits.producers:
            return ""
        return (
            f"{there} producers named themselves at this queue, and are remembered for ever; "
            f"use one of their names, or none: {name!r} would be one more"
        )

    # --- what becomes of it -----------------------------------------------------------------------

    def note(self, name: str, number: int, where: Edges, wall: int) -> None:
        known = self._heard_of(name, wall)
        if known.refused:
            known.refused.pop(number, None)
        known.numbers.add(Interval(number, number + 1))
        if known.packed and number not in known.recent:
            known.packed += _ENCODE((number, where))[1:]
        else:
            known.packed.clear()
        known.recent[number] = where
        many = len(known.recent) > 2 * self._limits.producer_recent
        if many or known.packed[PACKED_MAX:]:
            self._let_go(known)
            self._fold(name, known)
        if known.numbers.pieces > 1:
            self._bound(known)

    def _let_go(self, known: ProducerState) -> None:
        """Where its first numbers went is known no more (rule 1)."""
        numbers = list(known.recent)
        most = min(self._limits.producer_recent, max(1, len(numbers) // 2))
        for number in numbers[:-most]:
            del known.recent[number]
        known.packed.clear()

    def unnote(self, name: str, number: int) -> None:
        """It was not put after all, and nobody was told that it was."""
        known = self._known[name]
        known.numbers.remove(Interval(number, number + 1))
        known.recent.pop(number, None)
        known.packed.clear()
        self._changed[HEAD + name.encode()] = None
        if known.folded:
            self._changed[NUMBERS + name.encode()] = None

    def refuse(self, name: str, number: int, turns: dict[str, int], wall: int) -> None:
        """A put was refused to these callers, up to these turns (rule 2)."""
        known = self._heard_of(name, wall)
        said = known.refused.pop(number, {})
        said.update({one: max(turn, said.get(one, 0)) for one, turn in turns.items()})
        known.refused[number] = said
        most = self._limits.producer_refusals
        if sum(map(len, known.refused.values())) > 2 * most:
            for oldest in list(known.refused)[: max(1, len(known.refused) - most)]:
                del known.refused[oldest]
                known.closed.add(Interval(oldest, oldest + 1))
            self._fold(name, known)
        self._bound(known)

    def close(self, name: str, number: int, wall: int) -> None:
        """Nothing is ever put under this number, which was not used."""
        known = self._heard_of(name, wall)
        known.closed.add(Interval(number, number + 1))
        self._fold(name, known)
        self._bound(known)

    def _bound(self, known: ProducerState) -> None:
        # Rule 3.
        while known.numbers.pieces + known.closed.pieces > self._limits.producer_gaps:
            held = [one for one in (known.numbers, known.closed) if one.total]
            lowest = min(held, key=lambda one: one.first)
            known.floor = max(known.floor, lowest.first.stop)
            lowest.remove(lowest.first)
        for one in (known.numbers, known.closed) if known.floor else ():
            if one.total and one.first.start < known.floor:  # a record may be older than the floor
                one.remove(Interval(0, known.floor))

    # --- who is remembered ------------------------------------------------------------------------

    def _heard_of(self, name: str, wall: int) -> ProducerState:
        if self._since is None:
            self._since = wall
        known = self._known.get(name)
        if known is None:
            known = self._new(name, wall)
        known.seen = wall
        self._changed[HEAD + name.encode()] = None
        if name in self._unnamed:
            self._unnamed.move_to_end(name)
        elif is_unnamed(name):
            self._unnamed[name] = None
        if wall >= self._look_at:
            self._look_at = wall + LOOK_EACH
            self._forget(wall)
        return known

    def _new(self, name: str, wall: int) -> ProducerState:
        if not is_unnamed(name):
            self._named.add(owner_of(name))
        self._known[name] = known = ProducerState(wall)
        return known

    def _forget(self, wall: int) -> None:
        """Rule 4: looks at those that are silent for the longest."""
        assert self._since is not None
        # Others' clocks may have shown another time: what they wrote counts from this term on.
        while (name := next(iter(self._unnamed), None)) is not None:
            if max(self._known[name].seen, self._since) + FORGET_AFTER >= wall:
                return
            del self._unnamed[name]
            known = self._known.pop(name)
            self._changed[HEAD + name.encode()] = None
            if known.folded:
                self._changed[NUMBERS + name.encode()] = None

    def who_put(self, position: int, most: int) -> tuple[str, int] | None:
        """The producer whose put an item came with, and its number; one of the last of each.

        None where it is not remembered, or where more than `most` producers are to be looked at.
        """
        if len(self._known) > most:
            return None
        for name, known in self._known.items():
            if (number := _number_of(known.recent, position)) is not None:
                return name, number
        return None

    # --- as it is written down --------------------------------------------------------------------

    def _fold(self, name: str, known: ProducerState) -> None:
        known.folded = True
        self._changed[NUMBERS + name.encode()] = None

    def keys(self) -> Iterator[bytes]:
        for name, known in self._known.items():
            yield HEAD + name.encode()
            if known.folded:
                yield NUMBERS + name.encode()

    def record(self, key: bytes) -> bytes | None:
        """As it is written down; None when it is forgotten."""
        known = self._known.get(key[1:].decode())
        if known is None:
            return None
        if key[:1] == HEAD:
            recent = _packed_recent(known)
            return _ENCODE(
                ((), recent, known.seen, known.refused, known.floor)
            )  # as `ProducerSnapshot`
        return _ENCODE(KeptNumbers(tuple(known.numbers), tuple(known.closed), known.floor))

    @property
    def stops(self) -> list[int]:
        """Behind all positions that are known to have been given."""
        recent = [edges for known in self._known.values() for edges in known.recent.values()]
        return [stop for edges in recent for stop in edges[1::2]]

    def restore(self, key: bytes, value: bytes) -> None:
        """From what was written down; either record may come first, or be lost."""
        name = key[1:].decode()
        known = self._known.get(name) or self._new(name, 0)
        if is_unnamed(name):
            self._unnamed[name] = None
        if key[:1] == HEAD:
            head = msgspec.msgpack.decode(value, type=ProducerSnapshot)
            known.recent, known.refused, known.seen = head.recent, head.refused, head.seen
            numbers, known.folded = head.numbers, known.folded or len(head.numbers) > 0
            known.floor = max(known.floor, head.floor)
            for edges in known.recent.values():
                intervals(edges)
            for number in known.recent:
                known.numbers.add(Interval(number, number + 1))
        else:
            kept = msgspec.msgpack.decode(value, type=KeptNumbers)
            numbers, known.folded = kept.numbers, True
            known.closed, known.floor = IntervalSet(kept.closed), max(known.floor, kept.floor)
        for interval in numbers:
            known.numbers.add(interval)
        self._bound(known)


def put_by(value: bytes, position: int) -> int | None:
    """The number under which an item was put, as the first record of a producer says."""
    return _number_of(msgspec.msgpack.decode(value, type=ProducerSnapshot).recent, position)


class _Heard(msgspec.Struct, frozen=True, array_like=True):
    """A producer's first record, of which the numbers are not read."""

    numbers: msgspec.Raw
    recent: msgspec.Raw
    seen: int


def heard_at(value: bytes) -> int:
    """When a producer last put something, by the wall clock, as its first record says."""
    return msgspec.msgpack.decode(value, type=_Heard).seen


def intervals(edges: Edges) -> list[Interval]:
    """These as intervals; raises `ValueError` for what are none.

    >>> intervals((0, 3, 9, 10))
    [Interval(start=0, stop=3), Interval(start=9, stop=10)]
    """
    return [Interval(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _number_of(recent: dict[int, Edges], position: int) -> int | None:
    return next(
        (
            number
            for number, edges in recent.items()
            if any(a <= position < b for a, b in zip(edges[::2], edges[1::2], strict=True))
        ),
        None,
    )


def _packed_recent(known: ProducerState) -> msgspec.Raw:
    r"""A map of the last numbers, as msgpack has it.

    >>> bytes(_packed_recent(ProducerState(0, {7: (1, 2)})))
    b'\xdf\x00\x00\x00\x01\x07\x92\x01\x02'
    """
    if not known.packed:
        for pair in known.recent.items():
            known.packed += _ENCODE(pair)[1:]
    return msgspec.Raw(b"\xdf" + len(known.recent).to_bytes(4) + known.packed)
