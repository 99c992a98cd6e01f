"""Who decides on views: a small interface, and those that keep decisions on a disk, or in etcd.

A coordinator takes proposals and makes them into a ledger that is safe before anybody hears of it.
Proposals that come while one is being written go together into the next: one flush serves them all.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Note, Persist, Persisted, PersistFailed, Send
from snowmelt.protocols.membership.disk import LEDGER, twice
from snowmelt.protocols.membership.facts import KeepRecord
from snowmelt.protocols.membership.records import LEDGER as RECORD
from snowmelt.protocols.membership.view import Ledger, Proposal


class Decision(msgspec.Struct, frozen=True):
    """What came of the proposals; those `dropped` were not decided, and may come again."""

    ledger: Ledger
    dropped: tuple[Proposal, ...] = ()
    effects: tuple[Effect[object], ...] = ()


class Coordinator(Protocol):
    """Decides, one ledger after another."""

    unsure: Duration
    """What the next ledger is to say of that (rule 27)."""

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
        self.unsure = Duration(0)

    @property
    def decided(self) -> Ledger:
        return self._decided

    def propose(self, proposal: Proposal) -> list[Effect[object]]:
        """Queues a proposal and writes it when nothing is being written."""
        if not self.undecided(proposal):
            self._waiting.append(proposal)
        return self._write()

    def undecided(self, proposal: Proposal) -> bool:
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
        ledger = msgspec.structs.replace(ledger, unsure=self.unsure)
        ticket = next(self._tickets)
        self._writing = ticket, ledger, self._waiting
        self._waiting = []
        return [self._keep(ticket, ledger)]

    def _keep(self, ticket: int, ledger: Ledger) -> Effect[object]:
        return Persist(ticket, twice(LEDGER, ledger.written()))


class EtcdCoordinator(DiskCoordinator):
    """Decides while it leads, in etcd: a change that is not told to be kept may be there or not.

    It is told nothing more once this node leads no more; another reads what there is.
    """

    def __init__(self, ledger: Ledger, tickets: Iterator[int], me: NodeId) -> None:
        super().__init__(ledger, tickets)
        self._me = me

    def _keep(self, ticket: int, ledger: Ledger) -> Effect[object]:
        return Send(self._me, KeepRecord(ticket, RECORD, ledger.written()))
