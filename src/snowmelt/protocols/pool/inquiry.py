"""A consumer that has waited asks all producers at once what they have (rule 18).

One inquiry serves all that a process wants. It is over when all have answered, but for those that
are silent already, or when its time is; who has not answered by then is silent. An answer that
comes later counts as well.
"""

from random import Random
from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.pool.access import AccessList
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.messages import Inquire
from snowmelt.protocols.pool.settings import HOPS_MAX

SHARE: Final = 10
"""An answer may take this part of a `wait`."""
SHORTEST: Final = milliseconds(10)
"""But never less."""
ENDS: Final = ("inquiry", "ends")
AGAIN: Final = ("inquiry", "again")


class Inquiry:
    """What is known of who has something."""

    def __init__(self, chance: Random, alarms: Alarms, access: AccessList, wait: Duration) -> None:
        self._chance = chance
        self._alarms = alarms
        self._access = access
        self._wait = wait
        self._time = max(Duration(wait // SHARE), SHORTEST)
        self._awaited: dict[NodeId, None] = {}
        """Who is to answer yet."""
        self._full: dict[NodeId, None] = {}
        """Who has answered that it has something."""

    @property
    def runs(self) -> bool:
        """Whether the answer of somebody is waited for."""
        return bool(self._awaited)

    @property
    def in_vain(self) -> bool:
        """Whether nobody that answered has anything."""
        return not self._full

    def begin(self, now: Instant) -> Effects:
        """Asks everybody, unless that is going on."""
        if self.runs or not self._wait:
            return []
        asked, silent = self._access.everybody(), self._access.silent
        self._full = {}
        self._awaited = {one: None for one in asked if one not in silent}
        self._alarms.cancel(AGAIN)
        self._alarms.set(ENDS, later(now, self._time))
        if not self._awaited:
            self._end(now)
        return [Send(one, Inquire()) for one in asked]

    def answered(self, producer: NodeId, count: int, now: Instant) -> None:
        if count and producer in self._access:  # another may lie
            self._full[producer] = None
        self._await_no_more(producer, now)

    def lost(self, producer: NodeId, now: Instant) -> None:
        """No answer comes from there, and what came does not count."""
        self._full.pop(producer, None)
        self._await_no_more(producer, now)

    def _await_no_more(self, producer: NodeId, now: Instant) -> None:
        if producer in self._awaited:
            del self._awaited[producer]
            if not self._awaited:
                self._end(now)

    def due(self, part: str, now: Instant) -> Effects:
        """Its time is over; or those that are silent are asked again.

        One that stood still answers when it goes on; but its question may have been lost.
        """
        asked = tuple(self._access.silent) if part == AGAIN[1] else ()
        self._end(now)
        return [Send(one, Inquire()) for one in asked]

    def _end(self, now: Instant) -> None:
        """Who has not answered is silent from now on."""
        for one in self._awaited:
            self._access.silence(one)
        self._awaited = {}
        self._alarms.cancel(ENDS)
        if self._access.silent:  # whoever still wants something by then has asked all before
            self._alarms.set(AGAIN, later(now, Duration(self._wait + self._time)))

    def leave(self) -> None:
        """Nothing is wanted any more."""
        self._awaited = {}
        self._alarms.cancel(ENDS)
        self._alarms.cancel(AGAIN)

    def way(self) -> tuple[NodeId, ...]:
        """Past all that have something, in an order drawn anew, to one where it waits in line."""
        full = list(self._full)
        drawn = self._chance.sample(full, min(len(full), HOPS_MAX))
        return (*drawn, *self._access.way(1))

    def gone_by(self) -> None:
        """What was answered is used, and soon not true any more."""
        self._full = {}
