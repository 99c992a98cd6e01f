"""From where the fences of new batons begin, as the root keeps it: rules 12 and 18."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.node import Effect, Note, Send, Started
from snowmelt.core.record import Record, Write, decoded
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.messages import TERMS, Reached
from snowmelt.protocols.baton.stable import COPY, Stable
from snowmelt.protocols.baton.token import Token

COUNT_BITS: Final = 22
"""A fence is a term and a count. Terms are seconds, so a fence has 53 bits until 2093, which even
programs that know no integers compare well; and nobody hands on four million times a second."""
NOTED_BITS: Final = 20
"""So often, and oftener than counts overflow, the root is told how far a baton has come."""
BEGINNING: Final = 1_735_689_600 * SECOND
"""The first of January 2025."""
ANEW: Final = 24 * 3600
"""So many seconds ahead of its clock a root begins whose disk was lost: another's may go faster."""
KEY: Final = b"/fences"
_KEYS: Final = (KEY, KEY + COPY)
_Term = Annotated[int, msgspec.Meta(ge=0, lt=TERMS)]


def founded_anew(wall: int) -> tuple[Write, ...]:
    """What the disk of a new root begins with, by the time of day, when the old one's is lost."""
    value = msgspec.msgpack.encode((wall - BEGINNING) // SECOND + ANEW)
    return tuple(Write(key, value) for key in _KEYS)


def term_of(records: Iterable[Record]) -> int:
    """What a disk has; 0 for nothing that can be read."""
    term = 0
    for one in records:
        if one.key in _KEYS:
            with suppress(StoreDamaged):
                term = max(term, decoded(one.value, _Term))
    return term


class Fences:
    """The term in which new batons are made: another for every view, safe before its use.

    >>> from itertools import count
    >>> from snowmelt.protocols.baton.stable import OnDisk
    >>> fences = Fences(count(), OnDisk())
    >>> fences.started(Started((), (), BEGINNING + 70 * SECOND), Instant(0))
    []
    >>> [persist] = fences.entered(Instant(5 * SECOND)); fences.first is None
    True
    >>> _ = fences.settled(persist.ticket); fences.first == 75 << COUNT_BITS
    True
    """

    def __init__(self, tickets: Iterator[int], stable: Stable) -> None:
        self._tickets = tickets
        self._stable = stable
        self._open = stable.on_disk
        """Whether it is for this node to decide on terms, if it is the root."""
        self._wall_minus_now = 0
        self._safe = 0
        self._wanted = 0
        self._writing: dict[int, int] = {}
        self._began: int | None = None
        """The first of this process' terms."""

    @property
    def first(self) -> int | None:
        """Fences of new batons are above this; None while it is not safe yet."""
        return self._safe << COUNT_BITS if self._safe == self._wanted else None

    def started(self, start: Started, now: Instant) -> list[Effect[Any]]:
        self._wall_minus_now = start.wall - now
        if not self._stable.on_disk:
            return []
        self._safe = self._wanted = term_of(start.records)
        there = [*start.damaged, *(one.key for one in start.records)]
        if not self._safe and any(key in _KEYS for key in there):
            text = "how far fences are can't be read on this disk: they go on by the time of day"
            return [Note(text)]
        return []

    def lead(self, kept: bytes | None, now: Instant) -> list[Effect[Any]]:
        """Etcd has this: whoever made batons in that term, a later one is taken at once."""
        self._open, self._safe = True, -1
        self._writing.clear()
        notes: list[Effect[Any]] = []
        if kept is not None:
            try:
                self._wanted = max(self._wanted, decoded(kept, _Term))
            except StoreDamaged:
                text = "how far fences are can't be read in etcd: they go on by the time of day"
                notes.append(Note(text))
        return [*notes, *self.entered(now)]

    def lead_no_more(self) -> None:
        """What was asked for may be there, or never: it is not used."""
        self._open, self._safe = False, -1
        self._writing.clear()

    def entered(self, now: Instant) -> list[Effect[Any]]:
        """A new view begins; the time of day counts, too, for the disk may be an older copy."""
        seconds = (self._wall_minus_now + now - BEGINNING) // SECOND
        return self._raise(max(self._wanted + 1, seconds))

    def saw(self, fence: int) -> list[Effect[Any]]:
        """A baton has come so far: the term behind it is taken before it comes there."""
        term = (fence >> COUNT_BITS) + 1
        return self._raise(term) if term > self._wanted else []

    def covers(self, fence: int) -> bool:
        """Whether no later root begins below this fence."""
        return fence >> COUNT_BITS <= self._safe

    def earlier(self, fence: int) -> bool:
        """Whether this was given, if at all, by an earlier process."""
        if self._began is None and self.first is not None:
            self._began = self._safe
        return self._began is not None and fence >> COUNT_BITS < self._began

    @property
    def reserved(self) -> int:
        """Batons may be handed on in this term, and in those before it."""
        return self._safe

    def again(self) -> list[Effect[Any]]:
        return [] if self._writing else self._raise(self._wanted)

    def settled(self, ticket: int, failure: str = "") -> bool:
        """Whether this was its own; then the term is safe, or it is not."""
        term = self._writing.pop(ticket, None)
        if term is not None and not failure:
            self._safe = max(self._safe, term)
        return term is not None

    def _raise(self, term: int) -> list[Effect[Any]]:
        if not self._open:
            return []
        self._wanted = term
        ticket = next(self._tickets)
        self._writing[ticket] = term
        return [self._stable.keep(ticket, KEY, msgspec.msgpack.encode(term))]


def may_step(token: Token, here: NodeContext) -> bool:
    """Whether the next fence is in a term that no later root begins with (rule 18)."""
    term = (token.fence + 1) >> COUNT_BITS
    return not here.etcd or term <= max(token.made >> COUNT_BITS, here.reserved)


def ask_for_more(name: str, token: Token, here: NodeContext) -> Send[Any]:
    """The root is to see to the next term before fences come there."""
    return Send(here.root, Reached(name, token.fence))
