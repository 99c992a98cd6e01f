"""A queue by key with several partitions, also put into under uniqueness keys, under all faults.

It is judged as one with one partition is (`queue_by_key.py`, `queue_unique.py`): order and limits
by key hold over all partitions. Of a call whose items lie in several it is not known which stands
where before they come.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

from msgspec.structs import replace

from snowmelt.client.connection.steps import Steps
from snowmelt.core.instant import Instant
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.check.history import Ended, Kind, Value
from snowmelt_world.families.programs import FAILURES
from snowmelt_world.families.queue_by_key import KEYS, KeyLife, KeyUser, KeyUsers
from snowmelt_world.families.queue_deleted import SECONDS
from snowmelt_world.families.queue_unique import UniqueLedger, UniqueUser


class PartedUser(UniqueUser):
    """Puts items of one key, which lie in one partition, or of several."""

    def _puts_some(self) -> Steps[None]:
        if self.chance.random() < 0.2:
            yield from self._puts_unique()
            return
        count = self.chance.choice((1, 1, 2, 5))
        first, self._puts_made = self._puts_made, self._puts_made + count
        values = [f"{self.name}/{at}" for at in range(first, first + count)]
        alike = self.chance.random() < 0.6
        keys = [self.chance.choice(KEYS)] * count
        if not alike:
            keys = [self.chance.choice(KEYS) for _ in values]
        called, delay = self.now, self.chance.choice((0.0, 0.0, 0.0, 1.0))
        told = {"keys": tuple(keys)}
        try:
            (where,) = yield from self.steps.put_many(
                [one.encode() for one in values], None, delay, SECONDS, None,
                key=[one or None for one in keys],
            )  # fmt: skip
        except FAILURES:
            self._note(Kind.PUT, values, called, returned=None, ended=Ended.UNKNOWN, **told)
        else:
            places = tuple(where) if alike else ()
            self._note(Kind.PUT, values, called, positions=places, **told)

    def _note(self, kind: Kind, values: Sequence[Value], called: Instant, **more: Any) -> None:
        """Of several partitions some may have done what others refused."""
        if more.get("ended") is Ended.FAILED:
            more |= {"ended": Ended.UNKNOWN, "returned": None}
        super()._note(kind, values, called, **more)


class PartedUsers(KeyUsers):
    user: ClassVar[type[KeyUser]] = PartedUser
    ledger = UniqueLedger

    def settings(self, dice: Random, nodes: int) -> QueueSettings:
        """Of one that gives its items by keys, in any case."""
        partitions, drawn = dice.choice((2, 3, 5)), super().settings(dice, nodes)
        return replace(
            drawn,
            partitions=partitions,
            in_order_by_key=max(drawn.in_order_by_key, int(not drawn.at_once_by_key)),
            at_once=drawn.at_once and drawn.at_once + partitions,
            per_second=drawn.per_second and partitions + dice.choice((0, 3)),
            fair=0,
        )


class PartedKeyLife(KeyLife):
    """A life of queues with one of several partitions that gives its items by keys."""

    users: ClassVar[type[KeyUsers]] = PartedUsers
