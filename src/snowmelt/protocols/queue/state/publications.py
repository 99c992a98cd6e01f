"""What was published under which number: what it was, and what was begun and has not ended yet.

A number is used once (`producers.py`). Whoever publishes under it again must mean the same; so with
the number goes a *digest*, which is computed from the items alone, in whatever order they come and
however they are cut. A *plan* is a publication into several queues: it is written down as a whole,
in one of them, before any of them has a part of it. So whoever has to do it again ends what was
begun, and does not begin another.

A digest is remembered of the last `KEPT_MAX` publications of each producer that named itself, and
as long as it is known where they went. Of what is older it is told that nobody can say any more
whether it was the same.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.protocols.queue.api.calls import Plan, PublishStaged, Receipt, Share
from snowmelt.protocols.queue.state.producers import NOT_REMEMBERED, Edges, is_unnamed

KEPT_MAX: Final = 1024
PLANS_MAX: Final = 1000
"""So many plans of a queue may be open at once."""
PLANNED_MAX: Final = 1_000_000
"""So many batches they may name together."""

Name = tuple[str, int]
"""A producer, and its number."""


class PublicationRecord(msgspec.Struct, frozen=True, array_like=True):
    """One publication; this is also its record."""

    digest: int
    """0 when nobody said it."""
    items: int
    shares: tuple[Share, ...] = ()
    """What goes where, while it is a plan that has not ended."""


class Publications:
    """All that a queue remembers of them.

    >>> publications = Publications({})
    >>> publications.keep(("load", 7), PublicationRecord(99, 3))
    >>> publications.named(("load", 7)).items, publications.named(("load", 8))
    (3, None)
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self._known: dict[str, dict[int, PublicationRecord]] = {}
        self.plans = 0
        """How many are open."""
        self.planned = 0
        """How many batches they name."""

    def __iter__(self) -> Iterator[tuple[Name, PublicationRecord]]:
        for producer, known in self._known.items():
            for number, publication in known.items():
                yield (producer, number), publication

    def named(self, name: Name) -> PublicationRecord | None:
        """What was published, or begun, under this number."""
        return self._known.get(name[0], {}).get(name[1])

    def keep(self, name: Name, publication: PublicationRecord, lately: Container[int] = ()) -> None:
        """One that was made or is begun; the oldest, not one of these numbers, is forgotten.

        In which order they were made is not in their records: after a restart the lowest number
        passes for the oldest.
        """
        producer = name[0]
        if is_unnamed(producer):
            return  # whose numbers nobody can use again
        self._forget(name)
        self.restore(name, publication)
        self._changed[key(name)] = None
        known = self._known[producer]
        if len(known) > KEPT_MAX:
            old = (one for one, kept in known.items() if not kept.shares and one not in lately)
            oldest = next(old, None)
            if oldest is not None:
                self._forget((producer, oldest))

    def end(self, ask: PublishStaged, lately: Container[int]) -> None:
        """It was made; of one that ends a plan it is remembered what the plan was."""
        name = ask.producer, ask.sequence
        planned = self.named(name)
        digest, items = ask.digest, items_of(ask.receipts)
        if planned is not None:
            digest, items = planned.digest, planned.items
        self.keep(name, PublicationRecord(digest, items), lately)

    def other(self, ask: PublishStaged | Plan, items: int, earlier: Edges | None) -> str:
        """Why this can't be what was published, or begun, under its number; nothing if it can."""
        known = self.named((ask.producer, ask.sequence))
        if not ask.digest or (known is not None and known.digest == ask.digest):
            return ""
        whose = f"number {ask.sequence} of {ask.producer!r} in queue {ask.queue!r}"
        if known is not None and known.digest:
            return (
                f"{whose} was published before, with {known.items} items, and these {items} are "
                "not the same; nothing was put"
            )
        if earlier is not None and earlier != NOT_REMEMBERED and _count(earlier) == items:
            return ""  # by who did not say a digest
        return (
            f"{whose} was published before, and it is not remembered any more whether these "
            f"{items} items are the same; nothing was put"
        )

    def too_many(self, ask: Plan) -> str:
        """Why one more plan is too much: each is written down as a whole."""
        named = sum(len(one.receipts) for one in ask.shares)
        if self.plans < PLANS_MAX and self.planned + named <= PLANNED_MAX:
            return ""
        return (
            f"queue {ask.queue!r} has {self.plans} publications of {self.planned} batches that "
            f"were begun and have not ended; it takes {PLANS_MAX} of {PLANNED_MAX} batches: run "
            "again what began them"
        )

    def restore(self, name: Name, publication: PublicationRecord) -> None:
        """From what was written down."""
        self._known.setdefault(name[0], {})[name[1]] = publication
        self._count(publication, 1)

    def _forget(self, name: Name) -> None:
        gone = self._known.get(name[0], {}).pop(name[1], None)
        if gone is not None:
            self._count(gone, -1)
            self._changed[key(name)] = None

    def _count(self, publication: PublicationRecord, sign: int) -> None:
        if publication.shares:
            self.plans += sign
            self.planned += sign * sum(len(share.receipts) for share in publication.shares)


def items_of(receipts: Iterable[Receipt]) -> int:
    """How many items these batches have."""
    return sum(one.stop - one.first for one in receipts)


def _count(edges: Edges) -> int:
    return sum(edges[1::2]) - sum(edges[::2])


def key(name: Name) -> bytes:
    """Under which key a publication is written down.

    >>> name_of(key(("load", 7))[1:])
    ('load', 7)
    """
    producer, number = name
    return b"u" + producer.encode() + b"\0" + number.to_bytes(8)


def name_of(rest: bytes) -> Name:
    """From what follows the first byte of a key."""
    return rest[:-9].decode(), int.from_bytes(rest[-8:])
