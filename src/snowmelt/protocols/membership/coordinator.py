"""Who decides on views: a small interface, and the one that keeps its decisions on its own disk.

A coordinator takes proposals and makes them into a ledger that is safe before anybody hears of it.
Proposals that come while one is being written go together into the next: one flush serves them all.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from snowmelt.core.node import Effect, Note, Persist, Persisted, PersistFailed
from snowmelt.protocols.membership.disk import LEDGER, twice
from snowmelt.protocols.membership.view import Ledger, Proposal


class Decision(msgspec.Struct, frozen=True):
    """What came of the proposals; those `dropped` were not decided, and may come again."""

    ledger: Ledger
    dropped: tuple[Proposal, ...] = ()
    effects: tuple[Effect[object], ...] = ()


class Coordinator(Protocol):
    """Decides, one ledger after another."""

    @property
    def decided(self) -> Ledger:
        """The newest ledger that is safe; what may be told."""
        ...

    def propose(self, proposal: Proposal) -> list[Effect[object]]:
        """Asks for a decision. Proposing the same thing again while it is undecided is no harm."""
        ...

    def undecided(self, proposal: Proposal) -> bool:
        """Whether this was proposed, and may be decided at any moment."""
        ...

    def settle(self, event: Persisted | PersistFailed) -> Decision | None:
        """Takes the completion of an effect; None when it is not one of its own."""
        ...


class DiskCoordinator:
    """Decides alone, on this node's disk."""

    def __init__(self, ledger: Ledger, tickets: Iterator[int]) -> None:
        self._decided = ledger
        self._tickets = tickets
        self._waiting: list[Proposal] = []
        self._writing: tuple[int, Ledger, list[Proposal]] | None = None

    @property
    def decided(self) -> Ledger:
        """The newest ledger on the disk."""
        return self._decided

    def propose(self, proposal: Proposal) -> list[Effect[object]]:
        """Queues a proposal and writes it when nothing is being written."""
        if not self.undecided(proposal):
            self._waiting.append(proposal)
        return self._write()

    def undecided(self, proposal: Proposal) -> bool:
        """Whether it waits, or is being written."""
        busy = self._writing[2] if self._writing else []
        return proposal in self._waiting or proposal in busy

    def settle(self, event: Persisted | PersistFailed) -> Decision | None:
        """The flush is done, or the disk is full."""
        if self._writing is None or event.ticket != self._writing[0]:
            return None
        _, ledger, proposals = self._writing
        self._writing = None
        if isinstance(event, PersistFailed):
            note = Note(f"a view could not be kept ({event.reason}) -> nothing is decided")
            dropped = (*proposals, *self._waiting)
            self._waiting = []
            return Decision(self._decided, dropped, (note,))
        self._decided = ledger
        return Decision(ledger, (), tuple(self._write()))

    def _write(self) -> list[Effect[object]]:
        if self._writing is not None or not self._waiting:
            return []
        ledger = self._decided
        for proposal in self._waiting:
            ledger = ledger.after(proposal)
        ticket = next(self._tickets)
        self._writing = ticket, ledger, self._waiting
        self._waiting = []
        return [Persist(ticket, twice(LEDGER, ledger.written()))]
