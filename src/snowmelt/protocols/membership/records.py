"""What a cluster keeps in etcd, and how a leader reads and changes it.

Rules, which go on from those of the package:

11. Under a cluster's prefix there are five kinds of records: `cluster`, who founded it and what it
    is called, put once; `leader`, under a lease, whose value no other leader's ever is; `ledger`,
    as a coordinator on a disk keeps it. The others are `~home/` with a queue's name for each queue;
    and `~baton/` with a baton's name for its last value, and one more for the term of fences.
12. Whatever a leader reads or changes is a transaction that compares the leader's key with its own
    value, the cluster's with what was read, and each record that it changes with the revision that
    it read or wrote last. So one who slept decides nothing, however late its words arrive, and what
    it asked twice is done once.
13. One transaction is under way at a time, and what comes meanwhile goes with the next. When there
    is no answer it is asked again. When it is told that something does not hold, it was done
    already if the records are what they were to be; if not, this node leads no more.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import Effect, Note, Send
from snowmelt.protocols import etcd

Effects = list[Effect[object]]

CLUSTER: Final = "cluster"
LEADER: Final = "leader"
LEDGER: Final = "ledger"
HOMES: Final = "~home/"
"""The sign in it is none that a prefix may have, so no prefix below another holds homes of it."""
HOMES_END: Final = "~home0"
BATONS: Final = "~baton/"
BATONS_END: Final = "~baton0"
ROWS_LARGE: Final = 50
"""So many are read at once where more can't be had: an etcd of 3.4 brings 4 MiB at most, and the
value of a baton may have 64 KiB."""

ANSWER: Final = seconds(2)
"""So long an answer is waited for before it is asked again."""
TOGETHER_MAX: Final = 100
BYTES_MAX: Final = 512 << 10
"""So many records, and so many bytes of them, go in one transaction."""


class Founded(msgspec.Struct, frozen=True):
    """Of which cluster all under a prefix is."""

    cluster: int
    name: str
    version: int = 1


class LeaderRecord(msgspec.Struct, frozen=True):
    """Who leads, and where it is reached. The nonce makes each lead another one."""

    node: NodeId
    address: Address
    birth: int
    start: int
    nonce: int
    lease: int = 0
    """Under which its key stands; 0 when that is not known."""


class Change(msgspec.Struct, frozen=True):
    """A record to be kept, or erased if it is empty, and the ticket under which that is told."""

    ticket: int
    key: str
    value: bytes


class Flight(msgspec.Struct, frozen=True):
    asked: etcd.Transact
    changes: tuple[Change, ...]
    sent: Instant


class Records:
    def __init__(self, mine: bytes, numbers: Iterator[int]) -> None:
        self.deposed = ""
        """Why this node leads no more."""
        self.complete = False
        """Whether all was read."""
        self.values: dict[str, bytes] = {}
        """What was read, until somebody takes it."""
        self._mine = mine
        self._numbers = numbers
        self._revisions: dict[str, int] = {}
        self._waiting: list[Change] = []
        self._flight: Flight | None = None

    def check(self) -> None:
        """Nothing is changed before all was read."""
        assert self.complete or not self._waiting

    def read(self, now: Instant) -> Effects:
        """All there is: first these, and then one part of the rest after the other."""
        return self._read(now, etcd.Read(CLUSTER), etcd.Read(LEDGER), etcd.Read(HOMES, HOMES_END))

    def under(self, kind: str) -> tuple[tuple[str, bytes], ...]:
        """Of what was read, the records of this kind, by the rest of their keys."""
        return tuple(
            (key.removeprefix(kind), value)
            for key, value in self.values.items()
            if key.startswith(kind)
        )

    def keep(self, changes: list[Change], now: Instant) -> Effects:
        """Asks that records be kept, together if nothing is under way; `answered` tells when."""
        self._waiting += changes
        return self._next(now)

    def tick(self, now: Instant) -> Effects:
        flight = self._flight
        if flight is None or later(flight.sent, ANSWER) > now:
            return []
        return self._ask(msgspec.structs.replace(flight, sent=now))

    def answered(self, answer: etcd.Answer, now: Instant) -> tuple[tuple[Change, ...], Effects]:
        """Takes an answer; returns what is kept by it."""
        flight = self._flight
        if flight is None or answer.number != flight.asked.number:
            return (), []
        if isinstance(answer, etcd.EtcdFailed):  # it is asked again in time
            part = flight.asked.then[-1]
            if isinstance(part, etcd.Read) and part.rows_max > ROWS_LARGE:
                less = msgspec.structs.replace(part, rows_max=ROWS_LARGE)
                return (), self._read(now, *flight.asked.then[:-1], less)
            if answer.trouble is etcd.Trouble.UNKNOWN:
                return (), []
            return (), [Note(f"etcd keeps nothing: {answer.text} -> asked again")]
        assert isinstance(answer, etcd.Transacted)
        self._flight = None
        if not flight.changes:
            return (), self._took(flight, answer, now)
        if answer.succeeded:
            for change in flight.changes:
                self._revisions[change.key] = answer.revision if change.value else 0
        elif not self._was_done(flight, answer):
            return (), []
        return flight.changes, self._next(now)

    # --- within -----------------------------------------------------------------------------------

    def _took(self, flight: Flight, answer: etcd.Transacted, now: Instant) -> Effects:
        if not answer.succeeded:
            self.deposed = "another leads"
            return []
        rows = [row for rows in answer.read for row in rows]
        for row in rows:
            self._have(row)
        part = flight.asked.then[-1]
        assert isinstance(part, etcd.Read)
        if len(answer.read[-1]) == part.rows_max:
            return self._read(now, etcd.Read(rows[-1].key + "\0", part.stop, part.rows_max))
        if part.stop == HOMES_END:
            return self._read(now, etcd.Read(BATONS, BATONS_END))
        self.complete = True
        return self._next(now)

    def _read(self, now: Instant, *parts: etcd.Operation) -> Effects:
        asked = etcd.Transact(next(self._numbers), (etcd.CompareValue(LEADER, self._mine),), parts)
        return self._ask(Flight(asked, (), now))

    def _have(self, row: etcd.Row) -> None:
        if not row.key.isprintable():  # nor is it written anywhere
            return
        self.values[row.key] = row.value
        self._revisions[row.key] = row.revision

    def _was_done(self, flight: Flight, answer: etcd.Transacted) -> bool:
        # Rule 13.
        found = {row.key: row for rows in answer.read for row in rows}
        if LEADER not in found or found[LEADER].value != self._mine:
            self.deposed = "another leads"
            return False
        for change in flight.changes:
            row = found.get(change.key)
            if (b"" if row is None else row.value) != change.value:
                self.deposed = f"the record {change.key!r} was changed by somebody else"
                return False
            self._revisions[change.key] = 0 if row is None else row.revision
        return True

    def _next(self, now: Instant) -> Effects:
        if self._flight is not None or not self._waiting or not self.complete:
            return []
        changes, self._waiting = _together(self._waiting)
        keys = [change.key for change in changes]
        unchanged: list[etcd.Condition] = [
            etcd.Unchanged(key, self._revisions.get(key, 0)) for key in keys
        ]
        if CLUSTER in self._revisions and CLUSTER not in keys:
            unchanged.append(etcd.Unchanged(CLUSTER, self._revisions[CLUSTER]))
        asked = etcd.Transact(
            next(self._numbers),
            (etcd.CompareValue(LEADER, self._mine), *unchanged),
            tuple(_asked(change) for change in changes),
            (etcd.Read(LEADER), *(etcd.Read(key) for key in keys)),
        )
        return self._ask(Flight(asked, tuple(changes), now))

    def _ask(self, flight: Flight) -> Effects:
        self._flight = flight
        return [Send(etcd.ETCD, flight.asked)]


def _asked(change: Change) -> etcd.Operation:
    return etcd.PutKey(change.key, change.value) if change.value else etcd.DeleteKey(change.key)


def _together(waiting: list[Change]) -> tuple[list[Change], list[Change]]:
    """What goes in the next transaction, each key once, and what stays for another.

    >>> one, two = Change(1, "a", b""), Change(2, "a", b"")
    >>> _together([one, two]) == ([one], [two])
    True
    """
    keys: dict[str, None] = {}
    size = 0
    for at, change in enumerate(waiting):
        size += len(change.value)
        full = at == TOGETHER_MAX or (at and size > BYTES_MAX)
        if full or change.key in keys:
            return waiting[:at], waiting[at:]
        keys[change.key] = None
    return waiting, []
