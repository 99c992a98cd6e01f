"""The last value of each baton, as the root keeps it: rules 14, 19 and 20.

On a disk each stands twice, in one step: a disk that hurts one record hurts no value. A name whose
value can't be read is *spoiled* until somebody gives it up.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.instant import SECOND, START, Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Note, Reply, Send, Started
from snowmelt.core.record import Record, decoded
from snowmelt.protocols.baton.calls import BatonReset
from snowmelt.protocols.baton.fences import KEY
from snowmelt.protocols.baton.messages import Backup, Stored, Version
from snowmelt.protocols.baton.stable import COPY, Stable
from snowmelt.protocols.calling import Declined

Effects = list[Effect[Any]]

CALM: Final = Duration(SECOND)
"""What can wait goes to etcd so often at most."""
CALM_BYTES: Final = 64 << 10
"""And so much of it a second, since etcd keeps all that it was told for a while."""
AT_ONCE_BYTES: Final = 256 << 10
AT_ONCE: Final = 100
"""So much of it, and so many values, go at once."""
ETCD_BYTES: Final = 64 << 20
"""All values together in etcd: whoever comes to lead reads them first."""


class SavedValue(msgspec.Struct, frozen=True, array_like=True):
    """A value as the root keeps it. Version 1 of the record."""

    version: Version
    value: bytes
    record: int = 1


class ValueWrite(msgspec.Struct, frozen=True):
    """A value that is on its way to be kept, and who is told."""

    name: str
    kept: SavedValue
    source: NodeId | None = None
    number: int = 0
    """Which `Stored` was asked for; 0 for none."""
    operation: OperationId | None = None


class Values:
    def __init__(self, tickets: Iterator[int], stable: Stable) -> None:
        self.spoiled: dict[str, None] = {}
        """Names whose value can't be read."""
        self._tickets = tickets
        self._stable = stable
        self._open = stable.on_disk
        """Whether values are for this node to keep, if it is the root."""
        self._stored: dict[str, Version] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        """How much etcd has of each, and of all."""
        self._writing: dict[int, ValueWrite] = {}
        self._later: dict[str, ValueWrite] = {}
        """What can wait: nobody was told that it is safe, nor waits to be (rule 20)."""
        self._flush_due = START

    def stored(self, name: str) -> Version:
        return self._stored.get(name, Version())

    def writes(self, name: str) -> bool:
        return name in self._later or any(one.name == name for one in self._writing.values())

    def started(self, start: Started) -> tuple[dict[str, SavedValue], Effects]:
        """What the disk holds; what is hurt there in one place is written anew."""
        if not self._stable.on_disk:
            return {}, []
        found = newest(start)
        self._stored = {name: kept.version for name, kept in found.items()}
        effects: Effects = []
        for name in hurt(start):
            if name in found:
                effects.append(self._write(ValueWrite(name, found[name])))
            else:
                self.spoiled[name] = None
                effects.append(Note(f"the value of baton {name} can't be read on this disk"))
        return found, effects

    def lead(self, rows: dict[str, bytes]) -> tuple[dict[str, SavedValue], Effects]:
        """What etcd has; a record that somebody else wrote there is as one that is hurt."""
        self.lead_no_more()
        self._open = True
        found: dict[str, SavedValue] = {}
        notes: Effects = []
        for name, value in rows.items():
            self._count(name, len(value))
            try:
                found[name] = decoded(value, SavedValue)
            except StoreDamaged:
                self.spoiled[name] = None
                notes.append(Note(f"the value of baton {name} can't be read in etcd"))
        self._stored = {name: kept.version for name, kept in found.items()}
        return found, notes

    def lead_no_more(self) -> None:
        """Who asked for what is on its way asks whoever leads next."""
        self._open, self._bytes = False, 0
        for known in (self._stored, self._sizes, self._writing, self._later, self.spoiled):
            known.clear()

    def backup(self, source: NodeId, backup: Backup) -> Effects:
        """A newer value; what is not newer is kept already, or on its way there."""
        name = backup.name
        if not self._open:
            return []  # whoever wants an answer asks again
        if backup.version <= self.stored(name):
            stored = Stored(name, backup.number)
            return [Send(source, stored)] if backup.number else []
        coming = (one.kept.version for one in self._writing.values() if one.name == name)
        if backup.version <= max(coming, default=Version()):
            return []  # whoever wants an answer asks again
        one = ValueWrite(name, SavedValue(backup.version, backup.value), source, backup.number)
        waiting = self._later.get(name)
        if waiting is not None and waiting.kept.version <= backup.version:
            del self._later[name]
        if not backup.behind or self._stable.on_disk:
            return [self._write(one)]
        if waiting is None or waiting.kept.version <= backup.version:
            self._later[name] = one
        return []

    def flush(self, now: Instant) -> Effects:
        """Rule 20: what could wait has waited."""
        if not self._later or now < self._flush_due:
            return []
        effects: Effects = []
        size = 0
        while self._later and len(effects) < AT_ONCE and size < AT_ONCE_BYTES:
            one = self._later.pop(next(iter(self._later)))
            size += len(one.kept.value)
            effects.append(self._write(one))
        self._flush_due = later(now, max(CALM, Duration(size * SECOND // CALM_BYTES)))
        return effects

    def reset(self, operation: OperationId | None, name: str) -> Effects:
        """A value that can't be read is given up: the next baton of this name begins with none."""
        if name not in self.spoiled or self.writes(name):  # a newer one comes to lie there
            text = f"the value of baton {name!r} is sound: there is nothing to give up"
            return [Reply(operation, Declined("StateError", text))] if operation else []
        return [self._erase(name, operation)]

    def erase(self, name: str) -> Effects:
        """Nothing is in it any more, and all have forgotten what was (rule 15)."""
        there = name in self._stored and self._open and not self.writes(name)
        return [self._erase(name)] if there else []

    def _erase(self, name: str, operation: OperationId | None = None) -> Effect[Any]:
        return self._write(ValueWrite(name, SavedValue(Version(), b""), operation=operation))

    def persisted(self, ticket: int, failure: str = "") -> tuple[ValueWrite | None, Effects]:
        """It is kept; or it can't be, and what was there before is there still."""
        one = self._writing.pop(ticket, None)
        if one is None:
            return None, []  # it was asked for when this node led before
        if not failure:
            if one.kept.version > Version():
                self._stored[one.name] = max(self.stored(one.name), one.kept.version)
            else:
                self._stored.pop(one.name, None)
            self.spoiled.pop(one.name, None)
        return one, _told(one, failure)

    def _write(self, one: ValueWrite) -> Effect[Any]:
        key, value = one.name.encode(), b""
        if one.kept.version > Version():
            value = msgspec.msgpack.encode(one.kept)
        if not self._stable.on_disk:
            if self._bytes - self._sizes.get(one.name, 0) + len(value) > ETCD_BYTES:
                return _full(one)
            self._count(one.name, len(value))
        ticket = next(self._tickets)
        self._writing[ticket] = one
        return self._stable.keep(ticket, key, value)

    def _count(self, name: str, size: int) -> None:
        self._bytes += size - self._sizes.get(name, 0)
        self._sizes[name] = size


def _full(one: ValueWrite) -> Effect[Any]:
    text = f"the values of all batons have {ETCD_BYTES} bytes, which is the most that go to etcd"
    if one.operation is not None:
        return Reply(one.operation, Declined("Full", text))
    if one.source is not None and one.number:
        return Send(one.source, Stored(one.name, one.number, "Full", text))
    return Note(f"the value of baton {one.name} could not be kept: {text}")


def newest(start: Started) -> dict[str, SavedValue]:
    found: dict[str, SavedValue] = {}
    for record in start.records:
        if not record.key.startswith(KEY):
            with suppress(StoreDamaged):  # it is hurt
                name, kept = _name(record.key), decoded(record.value, SavedValue)
                found[name] = max(found.get(name, kept), kept, key=_age)
    return found


def hurt(start: Started) -> dict[str, None]:
    """Names of which a disk has a record that can't be read; perhaps the other can."""
    keys = [*start.damaged, *(one.key for one in start.records if not _reads(one))]
    return dict.fromkeys(_name(key) for key in keys if not key.startswith(KEY))


def _reads(record: Record) -> bool:
    try:
        return bool(decoded(record.value, SavedValue))
    except StoreDamaged:
        return False


def _told(one: ValueWrite, failure: str) -> Effects:
    error = "MachineError" if failure else ""
    if one.operation is not None:
        answer = Declined(error, failure) if failure else BatonReset()
        return [Reply(one.operation, answer)]
    if one.source is not None and one.number:
        return [Send(one.source, Stored(one.name, one.number, error, failure))]
    if failure:
        return [Note(f"the value of baton {one.name} could not be kept: {failure}")]
    return []


def _name(key: bytes) -> str:
    return key.removesuffix(COPY).decode(errors="replace")


def _age(kept: SavedValue) -> Version:
    return kept.version
