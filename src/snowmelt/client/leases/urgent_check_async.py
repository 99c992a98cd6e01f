"""What is more urgent than what a loop holds is asked for before an item is begun, with `await`.

1. What the same program has put before comes first.
2. What is more urgent is handed out before the rest of what was got, and that stays leased.
3. Where work has become slow, what would wait here for long goes back, as if it were not taken.
4. Looking takes a hundredth of a loop's time, or it is a tenth of a second since it was looked.
5. When nobody answers, what is here is worked on.
6. Where nothing put later comes first, nothing is looked for.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from snowmelt.client.coalescing.tasks import TaskCoalescer
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.items_async import Item, UpdateSender, items_under
from snowmelt.client.leases.leasing_async import leasing
from snowmelt.client.leases.looping import PrefetchSize
from snowmelt.client.leases.renewals import LeaseRenewals
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.runtime.clock import steady_now

NEVER: Final = Instant(1 << 62)
LOOK: Final = milliseconds(100)
SHARE: Final = 100
_GUESS: Final = milliseconds(0.2)


class UrgentCheck:
    """Looks, for one loop, whether something more urgent has come."""

    def __init__(
        self,
        port: KeepingPort,
        steps: LeaseSteps,
        renewals: LeaseRenewals,
        counter: UpdateSender,
        pace: PrefetchSize,
        puts: TaskCoalescer | None,
    ) -> None:
        self.due = Instant(0) if puts is not None else NEVER
        """When to look next."""
        self._port = port
        self._steps = steps
        self._renewals = renewals
        self._counter = counter
        self._pace = pace
        self._puts = puts
        self._took = Duration(_GUESS)
        """How long it took last."""
        self._most = 1
        """As many as are worked off in a moment."""

    async def before_get(self, timeout: float) -> None:
        """Sends the puts that gather, since they come first (rule 1)."""
        if self._puts is not None:
            await self._puts.send(timeout)

    def got(self, now: Instant) -> None:
        """What is here was the most urgent there was (rule 4)."""
        if self._puts is not None:
            self.due = later(now, Duration(max(self._took, min(LOOK, SHARE * self._took))))

    async def look(self, waits: Item, others: Iterable[Item]) -> list[Item]:
        """One that waits, those behind it, and before them what is more urgent."""
        asked = steady_now()
        await self.before_get(0.0)
        self._most = most = self._pace.next(asked, self._renewals.settled)
        ahead: Iterable[Item] = ()
        with suppress(SnowmeltError):  # rule 5
            get = self._renewals.get(most, BYTES_MAX, 0.0, waits.held[1].start)
            delivered = await leasing(self._port, self._steps, get)
            if delivered is not None:
                ahead = items_under(self._counter, delivered)
        here = [*ahead, waits, *others]
        now = steady_now()
        self._took = Duration(now - asked)
        self._pace.came(asked, now, self._renewals.settled)
        self.got(now)
        return here

    async def fewer(self, here: list[Item]) -> None:
        """Rule 3: those that go back leave the list, however this ends."""
        most = self._most
        if len(here) <= 2 * most:
            return
        rest = here[most:]
        try:
            with suppress(SnowmeltError):  # else they are worked on here
                await run_async(self._port, self._renewals.release([one.held for one in rest]))
        finally:
            here[most:] = [one for one in rest if one.delivered.open_in(one.held[1])]
