"""What those who use a queue with several partitions know of it, and what its nodes said.

It is told to `judge/one_order.py` as it happens. Bodies that don't go with answers are read from
the disks where they lie.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from snowmelt.client.leases.delivered import places_of
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.keys import unpacked
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.gathered import Gathered, PartitionLease
from snowmelt.protocols.queue.api.partition_names import part_name, part_of
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.messages.partition_words import CancelPartedGet, PartialAnswer
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt_world.disk import Disk
from snowmelt_world.families.fifo_engine import FIFO
from snowmelt_world.judge.one_order import NEVER, Got, Held, OneOrder

QUEUE: Final = "log"
CALL: Final = seconds(15)
WAITS: Final = seconds(5)
"""The longest that a get waits for items."""
SHARE: Final = 0.95
"""Of its time a lease holds for certain, however fast its node's clock is."""


class Leased(msgspec.Struct):
    """What one partition leased for a get, and which others were left out then."""

    part: int
    away: tuple[int, ...]
    since: int
    held: dict[str, Held] = {}
    places: dict[int, str] = {}


class Open(msgspec.Struct):
    """A get, and all answers to it that any door said: each of them was a lease."""

    got: Got
    answers: list[tuple[Gathered, Got]] = []
    leases: dict[int, Leased] = {}
    """By tokens and partitions."""
    left: dict[int, Instant] = {}
    """When partitions heard last that nobody waits for it."""
    items_max: int = 0
    dropped: bool = False
    """Whether a door said that nobody waits for it."""


class Setting(msgspec.Struct):
    """What those who use the queue know of it."""

    settings: QueueSettings
    ledger: OneOrder
    end: Instant
    disks: Callable[[], list[Disk]]
    """Where bodies are that don't go with answers."""
    leaps: list[Instant] = []
    """When a node's clock leaps forward: a lease is over then, for all that anybody knows."""
    patient: bool = False
    """Whether gets wait for long, so that there is always one that waits."""
    made: bool = False
    values: int = 0
    gets: dict[OperationId, Open] = {}

    @property
    def keyed(self) -> bool:
        return self.settings.priorities == ANY

    def rank(self, place: int, key: int) -> tuple[int, int]:
        """Of an item that stands there."""
        return (key, place) if self.keyed else divmod(place, 1 << PRIORITY_BITS)

    def gave(self, word: PartialAnswer, at: Instant) -> None:
        """A partition gave a piece to a door: that is when the time of its lease began."""
        known, part = self.gets.get(word.operation), part_of(word.queue)
        if known is None or part is None or not word.leased.token:
            return
        token = token_of(part, word.leased)
        if token in known.leases:
            return
        sure = later(at, Duration(int(word.leased.lease * SHARE)))
        until = min([sure, *[leap for leap in self.leaps if leap >= at]])
        if known.left.get(part) == at:  # in the turn in which it was told
            until = at
        most = known.items_max - sum(
            min(one.until, one.asked_back) > at
            for lease in known.leases.values()
            if lease.part not in word.away and part not in lease.away  # else in vain (rule 13)
            if lease.since == word.since
            or not known.dropped  # else it may have gone back (rule 17)
            for one in lease.held.values()
        )
        leased = known.leases[token] = Leased(part, word.away, word.since)
        held = leased.held
        for place, key, value, again, failures in self.items(PartitionLease(part, word.leased)):
            item = self.ledger.items.get(value)
            if item is None or item.part != part:
                self.ledger.saw(f"{value} came from partition {part}", value)
                return
            if item.told < NEVER and item.rank != self.rank(place, key):
                self.ledger.saw(f"{value} stands at {place}, and was put elsewhere", value)
            item.rank = self.rank(place, key)
            held[value], leased.places[place] = (
                Held(until, known.got.asked_back, dropped=known.dropped),
                value,
            )
            if len(held) > most:
                self.ledger.saw(f"{value} was given to {known.got.who}, which has enough", value)
            lease = Got(known.got.who, known.got.asked, at, away=word.away)
            lease.again, lease.failures = again, failures
            lease.held[value] = held[value]
            lease.left = known.got.left
            self.ledger.leases.setdefault(value, []).append(lease)

    def answered(self, operation: OperationId, answer: Gathered, at: Instant) -> None:
        """A door said so, whether it was heard or not."""
        known = self.gets.get(operation)
        if known is None:  # of another queue
            return
        first = known.got
        got = Got(first.who, first.asked, at, away=answer.away, before=first.before)
        for piece in answer.pieces:
            got.held |= known.leases[token_of(piece.part, piece.leased)].held
        for held in got.held.values():
            held.said = min(held.said, at)
        if len(got.held) > known.items_max:
            self.ledger.saw(f"{got.who} was given {len(got.held)} items", got.who)
        known.answers.append((answer, got))
        self.ledger.gets.append(got)

    def left(self, queue: str, operations: tuple[OperationId, ...], at: Instant) -> None:
        """A partition hears that nobody waits for these, and takes back what they were leased."""
        part = part_of(queue) or 0
        for known in [self.gets[one] for one in operations if one in self.gets]:
            known.left[part] = at
            heard = [one for _, got in known.answers if got.heard for one in got.held.values()]
            for lease in known.leases.values():
                for held in lease.held.values():
                    if lease.part == part and not any(held is one for one in heard):
                        held.until = min(held.until, at)

    def leaves(self, word: CancelPartedGet) -> None:
        """A door says so of one that nobody asks for any more, or whose client is gone."""
        known = self.gets.get(word.operation)
        if known is None:
            return
        known.dropped = True
        for lease in known.leases.values():
            for one in lease.held.values():
                one.dropped = True
        if word.since:
            self.drops(known.got)

    def drops(self, got: Got) -> None:
        """What it has in vain goes back without a word, at the end of a lease at the latest."""
        ledger, since = self.ledger, got.asked
        if ledger.faulty:
            end = later(since, Duration(CALL + 2 * WAITS + ledger.held_for))
            ledger.unseen.append((since, end))

    def items(self, piece: PartitionLease) -> Iterator[tuple[int, int, str, bool, int]]:
        """Position, key, value of each; whether it was leased before, and how often in vain."""
        for part in piece.leased.parts:
            places = list(places_of(part))
            keys = unpacked(part.keys) if self.keyed else [0] * len(places)
            for place, key, body in zip(places, keys, Batch(part.offsets, part.blob), strict=True):
                yield place, key, bytes(body).decode().rstrip("."), *_before(part)
        for span in piece.leased.spans:
            term = int(span.stream.rpartition("/")[2])
            there = FIFO.bodies(self.disks(), part_name(QUEUE, piece.part), term)
            keys = unpacked(span.keys) if self.keyed else [0] * (span.stop - span.start)
            for at, key in enumerate(keys):
                value = there[span.first + at].rstrip(".")
                yield span.start + at, key, value, *_before(span)


def _before(given: calls.ItemRun | calls.Span) -> tuple[bool, int]:
    return given.reason != "", given.failures


def token_of(part: int, leased: calls.Leased) -> int:
    return (leased.token << 8) + part
