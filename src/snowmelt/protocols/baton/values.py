"""The last value of each baton on the root's disk: rule 14.

Each stands there twice, in one step: a disk that hurts one record hurts no value. A name both of
whose records are hurt is *spoiled* until somebody gives the value up.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Note, Persist, Reply, Send, Started
from snowmelt.core.record import Write
from snowmelt.protocols.baton.calls import BatonReset
from snowmelt.protocols.baton.fences import KEY
from snowmelt.protocols.baton.messages import Backup, Stored, Version
from snowmelt.protocols.calling import Declined

Effects = list[Effect[Any]]

COPY: Final = b"/copy"
"""Behind the name, in which no such sign can stand."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A value as it stands on the root's disk. Version 1 of the record."""

    version: Version
    value: bytes
    record: int = 1


class Writing(msgspec.Struct, frozen=True):
    """A value that is on its way to the disk, and who is told."""

    name: str
    kept: Kept
    source: NodeId | None = None
    number: int = 0
    """Which `Stored` was asked for; 0 for none."""
    operation: OperationId | None = None


class Values:
    """All of them at one node."""

    def __init__(self, tickets: Iterator[int]) -> None:
        self.spoiled: dict[str, None] = {}
        """Names whose value can't be read."""
        self._tickets = tickets
        self._stored: dict[str, Version] = {}
        self._writing: dict[int, Writing] = {}

    def stored(self, name: str) -> Version:
        """The newest on the disk."""
        return self._stored.get(name, Version())

    def writes(self, name: str) -> bool:
        """Whether one is on its way there."""
        return any(one.name == name for one in self._writing.values())

    def started(self, start: Started) -> tuple[dict[str, Kept], Effects]:
        """What the disk holds; what is hurt there in one place is written anew."""
        found = newest(start)
        hurt = dict.fromkeys(_name(key) for key in start.damaged if not key.startswith(KEY))
        self._stored = {name: kept.version for name, kept in found.items()}
        effects: Effects = []
        for name in hurt:
            if name in found:
                effects.append(self._write(Writing(name, found[name])))
            else:
                self.spoiled[name] = None
                effects.append(Note(f"the value of baton {name} can't be read on this disk"))
        return found, effects

    def backup(self, source: NodeId, backup: Backup) -> Effects:
        """A newer value; what is not newer is on the disk already, or on its way there."""
        name = backup.name
        if backup.version <= self.stored(name):
            stored = Stored(name, backup.number)
            return [Send(source, stored)] if backup.number else []
        coming = (one.kept.version for one in self._writing.values() if one.name == name)
        if backup.version <= max(coming, default=Version()):
            return []  # whoever wants an answer asks again
        kept = Kept(backup.version, backup.value)
        return [self._write(Writing(name, kept, source, backup.number))]

    def reset(self, operation: OperationId | None, name: str) -> Effects:
        """A value that can't be read is given up: the next baton of this name begins with none."""
        if name not in self.spoiled or self.writes(name):  # a newer one comes to lie there
            text = f"the value of baton {name!r} is sound: there is nothing to give up"
            return [Reply(operation, Declined("StateError", text))] if operation else []
        return [self._write(Writing(name, Kept(Version(), b""), operation=operation))]

    def persisted(self, ticket: int, failure: str = "") -> tuple[Writing, Effects]:
        """It is on the disk; or it can't be, and what was there before is there still."""
        one = self._writing.pop(ticket)
        if not failure:
            self._stored[one.name] = max(self.stored(one.name), one.kept.version)
            self.spoiled.pop(one.name, None)
        return one, _told(one, failure)

    def _write(self, one: Writing) -> Persist:
        ticket = next(self._tickets)
        self._writing[ticket] = one
        key, value = one.name.encode(), msgspec.msgpack.encode(one.kept)
        return Persist(ticket, (Write(key, value), Write(key + COPY, value)))


def newest(start: Started) -> dict[str, Kept]:
    """What a disk has of each name."""
    found: dict[str, Kept] = {}
    for record in start.records:
        if not record.key.startswith(KEY):
            name, kept = _name(record.key), _read(record.value)
            found[name] = max(found.get(name, kept), kept, key=_age)
    return found


def _told(one: Writing, failure: str) -> Effects:
    error = "MachineError" if failure else ""
    if one.operation is not None:
        answer = Declined(error, failure) if failure else BatonReset()
        return [Reply(one.operation, answer)]
    if one.source is not None and one.number:
        return [Send(one.source, Stored(one.name, one.number, error, failure))]
    if failure:
        return [Note(f"the value of baton {one.name} could not be kept: {failure}")]
    return []


def _read(value: bytes) -> Kept:
    try:
        return msgspec.msgpack.decode(value, type=Kept)
    except msgspec.ValidationError as error:
        raise StoreDamaged(f"a baton's value does not read: {error}") from error


def _name(key: bytes) -> str:
    return key.removesuffix(COPY).decode(errors="replace")


def _age(kept: Kept) -> Version:
    return kept.version
