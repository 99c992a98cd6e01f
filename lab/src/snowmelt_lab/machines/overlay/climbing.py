"""Aggregation up a tree and decomposition down it, at one place (rules 7 to 11).

Whoever uses it makes messages of what it returns, and says what a batch is by a `Batches`.
"""

from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from snowmelt_lab.machines.overlay.labels import Place

B = TypeVar("B")
G = TypeVar("G")


class Batches(Protocol[B, G]):
    """What climbs, and what comes back for it."""

    def combine(self, batches: Sequence[B]) -> B:
        """One batch for several, at least one."""
        ...

    def decompose(self, grant: G, batches: Sequence[B]) -> Sequence[G]:
        """What each of these batches gets of the grant for their combination, in their order."""
        ...


class Part(msgspec.Struct, Generic[B], frozen=True):
    """A batch that came from below, or, without a child, this place's own."""

    child: Place | None
    number: int
    batch: B


class Ascent(msgspec.Struct, Generic[B], frozen=True):
    """A combined batch that is on its way, and what it was made of."""

    number: int
    parts: tuple[Part[B], ...]
    batch: B


class Up(msgspec.Struct, Generic[B], frozen=True):
    to: Place
    number: int
    batch: B


class Arrival(msgspec.Struct, Generic[B], frozen=True):
    """A batch has come to the root, which must answer it with `granted`."""

    number: int
    batch: B


class Down(msgspec.Struct, Generic[G], frozen=True):
    """To be sent to a place below: the answer to its batch of this number."""

    to: Place
    number: int
    grant: G


class Back(msgspec.Struct, frozen=True):
    """A batch goes back unanswered: to a place below, or, without one, it was this place's own."""

    to: Place | None
    number: int


class Own(msgspec.Struct, Generic[G], frozen=True):
    """The answer to this place's own part of the last batch."""

    grant: G


class Climbing(Generic[B, G]):
    """What one place holds in one epoch.

    >>> class Sums:
    ...     def combine(self, batches): return sum(batches)
    ...     def decompose(self, grant, batches):
    ...         return [grant + sum(batches[:at]) for at in range(len(batches))]
    >>> root, leaf = Place("a", 0), Place("b", 0)
    >>> below, above = Climbing(Sums(), leaf, root), Climbing(Sums(), root, None, (leaf,))
    >>> (up,) = below.send(3); up
    Up(to=Place(node='a', index=0), number=1, batch=3)
    >>> above.take(leaf, up.number, up.batch)
    []
    >>> (top,) = above.send(2); top
    Arrival(number=1, batch=5)
    >>> own, down = above.granted(top.number, 100); own
    Own(grant=100)
    >>> below.granted(down.number, down.grant)
    [Own(grant=102)]
    """

    def __init__(
        self,
        batches: Batches[B, G],
        place: Place,
        parent: Place | None,
        children: tuple[Place, ...] = (),
        *,
        synchronous: bool = False,
    ) -> None:
        self.place: Final = place
        self.parent = parent
        self.children = children
        self.number = 0
        """Of the last batch that left here."""
        self.ascent: Ascent[B] | None = None
        self.waiting: dict[Place, Part[B]] = {}
        """What came from below and has not left yet, one batch a child at most."""
        self.kept: dict[Place, Down[G]] = {}
        """The last answer to each child, until its next batch shows that it has come."""
        self.ready = True
        """Whether this place's own part may go up, in synchronous mode (rule 11)."""
        self.closed = False
        """Whether nothing goes up any more, since this epoch ends."""
        self.dropped = 0
        """Messages that were too late, or from places that are no children."""
        self._batches = batches
        self.synchronous = synchronous

    @property
    def idle(self) -> bool:
        """Whether a batch may leave now: none is on its way (rule 8), nor any awaited (rule 11)."""
        if self.closed or self.ascent is not None:
            return False
        if not self.synchronous:
            return True
        return self.ready and all(child in self.waiting for child in self.children)

    def take(self, child: Place, number: int, batch: B) -> list[Down[G]]:
        """A batch comes from below: it waits for `send`, or is answered as before (rule 9)."""
        kept = self.kept.get(child)
        if kept is not None and kept.number == number:
            return [kept]
        if self._last(child) == number:
            return []
        due = child in self.children and number == self._last(child) + 1
        if not due or self._part(child) is not None:
            self.dropped += 1
            return []
        self.kept.pop(child, None)
        self.waiting[child] = Part(child, number, batch)
        return []

    def send(self, own: B | None) -> list[Up[B] | Arrival[B]]:
        """All that waits goes up as one batch, this place's own part first (rule 8).

        Children's parts stand in the order in which they came; in synchronous mode in the order of
        the children.

        Nothing happens when there is nothing, or a batch is on its way: look at `idle` before you
        take a snapshot of your operations.
        """
        if not self.idle or (own is None and not self.waiting):
            return []
        parts = list(self.waiting.values())
        if self.synchronous:
            parts = [self.waiting[child] for child in self.children]
        self.number += 1
        if own is not None:
            parts.insert(0, Part(None, self.number, own))
        self.waiting = {}
        batch = self._batches.combine([part.batch for part in parts])
        self.ascent = Ascent(self.number, tuple(parts), batch)
        if self.parent is None:
            return [Arrival(self.number, batch)]
        return [Up(self.parent, self.number, batch)]

    def granted(self, number: int, grant: G) -> list[Own[G] | Down[G]]:
        """The answer to the batch on its way: each part gets its share (rule 9)."""
        if self.ascent is None or self.ascent.number != number:
            self.dropped += 1
            return []
        parts, self.ascent = self.ascent.parts, None
        grants = self._batches.decompose(grant, [part.batch for part in parts])
        effects: list[Own[G] | Down[G]] = []
        for part, share in zip(parts, grants, strict=True):
            if part.child is None:
                effects.append(Own(share))
            else:
                self.kept[part.child] = down = Down(part.child, part.number, share)
                effects.append(down)
        return effects

    def refuse(self) -> list[Back]:
        """What waits goes back, since the epoch ends; nothing more goes up."""
        self.closed = True
        parts, self.waiting = self.waiting.values(), {}
        return [Back(part.child, part.number) for part in parts]

    def refused(self, number: int) -> list[Back]:
        """The batch on its way came back, so each part of it does; nothing more goes up."""
        if self.ascent is None or self.ascent.number != number:
            self.dropped += 1
            return []
        self.closed = True
        parts, self.ascent = self.ascent.parts, None
        return [Back(part.child, part.number) for part in parts]

    def check(self) -> None:
        """One batch a child at most, waiting or on its way."""
        on_its_way = [part.child for part in self.ascent.parts] if self.ascent else []
        assert len(set(on_its_way)) == len(on_its_way), f"{self.place}: twice in {on_its_way}"
        twice = [child for child in self.waiting if child in on_its_way or child in self.kept]
        assert not twice, f"{self.place}: {twice} have more than one batch here"

    def _part(self, child: Place) -> Part[B] | None:
        on_its_way = self.ascent.parts if self.ascent is not None else ()
        waiting = self.waiting.get(child)
        return waiting or next((part for part in on_its_way if part.child == child), None)

    def _last(self, child: Place) -> int:
        part, kept = self._part(child), self.kept.get(child)
        return part.number if part else kept.number if kept else 0
