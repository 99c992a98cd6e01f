"""A queue by key into which some is put under uniqueness keys, under all faults.

1. Two puts under one key that were answered with different positions are of different times: before
   the second was answered, somebody began to acknowledge what the first one named.
2. What is got at a position that was named for a key was put under that key.
3. What was named comes, if nothing is lost.
"""

from typing import ClassVar

import msgspec

from snowmelt.client.connection.steps import Steps
from snowmelt.client.queue.bodies import Unique
from snowmelt.core.instant import Instant, seconds
from snowmelt_world.check.history import NEVER, Kind
from snowmelt_world.families.programs import FAILURES
from snowmelt_world.families.queue_by_key import KeyLedger, KeyLife, KeyUser, KeyUsers
from snowmelt_world.families.queue_deleted import SECONDS
from snowmelt_world.world import Broken

NAMES = ("u", "v")


class Named(msgspec.Struct):
    """A put under a key, and which position it was answered with."""

    name: str
    position: int
    returned: Instant


class UniqueLedger(KeyLedger):
    """What was put under which key, besides."""

    names: dict[str, str] = msgspec.field(default_factory=dict)
    """By value, also where no answer came."""
    named: list[Named] = msgspec.field(default_factory=list)

    def judge(self) -> None:
        """Rules 1 to 3."""
        super().judge()
        if not self.keeps:
            return
        values: dict[int, str] = {}
        for one in self.seen:
            if one.kind is Kind.GET:
                values |= zip(one.positions, map(str, one.values), strict=True)
        ends: dict[str, int] = {}
        for one in self.seen:
            for value in map(str, one.values) if one.kind is Kind.ACK else ():
                ends[value] = min(ends.get(value, NEVER), one.called)
        for put in self.named:
            value = values.get(put.position, "")
            if value and self.names.get(value) != put.name:
                self._broken(f"{value} lies where {put.name} is said to")
            if not value and self.drained:
                self._broken(f"what is named for {put.name} at {put.position} never came")
            end = ends.get(value, NEVER)
            for other in self.named:
                later = other.name == put.name and other.position > put.position
                if later and other.returned < end:
                    self._broken(
                        f"{put.name} was put at {other.position}, and lived at {put.position}"
                    )

    def _broken(self, what: str) -> None:
        raise Broken(f"{self.queue}: {what}", self.queue)


class UniqueUser(KeyUser):
    """Puts half of its items under few keys."""

    keys: UniqueLedger

    def _puts_some(self) -> Steps[None]:
        if self.chance.random() < 0.5:
            yield from super()._puts_some()
        else:
            yield from self._puts_unique()

    def _puts_unique(self) -> Steps[None]:
        number, self._puts_made = self._puts_made, self._puts_made + 1
        name, value = self.chance.choice(NAMES), f"{self.name}/{number}"
        self.keys.names[value] = name
        unique = Unique(name.encode(), seconds(self.chance.choice((0, 0, 2))))
        try:
            (where,) = yield from self.steps.put_many(
                [value.encode()], None, 0.0, SECONDS, None, unique=unique
            )
        except FAILURES:
            return
        if where.size:  # else it is in, and nobody knows any more where
            self.keys.named.append(Named(name, where.start, self.now))


class UniqueUsers(KeyUsers):
    user = UniqueUser
    ledger = UniqueLedger


class UniqueLife(KeyLife):
    """A life of queues with one that is put into under uniqueness keys."""

    users: ClassVar[type[KeyUsers]] = UniqueUsers
