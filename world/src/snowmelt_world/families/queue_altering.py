"""Who alters the settings of queues while there is load, one thing after another of each.

What was sent once and answered is so. When it may have been said twice, or nobody knows whether it
was done, it may be so at any time from then on: then nothing more of that queue is altered.
"""

from functools import partial
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.core.instant import START, Duration, Instant, milliseconds, seconds
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import REPLICAS_USUAL, QueueSettings
from snowmelt_world.families.fifo_actors import Actor, Phase, Stage
from snowmelt_world.families.fifo_words import Ledger, terms_of
from snowmelt_world.families.programs import in_reach
from snowmelt_world.judge.agreed import Era
from snowmelt_world.judge.values import Terms
from snowmelt_world.network import LinkStyle

ALTERED_SHARE: Final = 0.3
"""In how many lives settings are altered."""


class Alterer(Actor):
    """Alters, at these times."""

    def __init__(
        self,
        stage: Stage,
        chance: Random,
        ledgers: list[Ledger],
        times: list[Instant],
        style: LinkStyle,
    ) -> None:
        super().__init__(stage, "alterer", chance)
        self._ledgers = ledgers
        self._style = style
        self._asking: dict[str, None] = {}
        for at in times:
            stage.world.at(at, self._alter)

    def _alter(self) -> None:
        ledger = self.chance.choice(self._ledgers)
        if ledger.queue not in self._asking:
            self._asking[ledger.queue] = None
            self.ask(calls.Open(ledger.queue, make=False), partial(self._opened, ledger))

    def _opened(self, ledger: Ledger, outcome: Outcome[Any], at: Instant) -> None:
        """It is asked of whoever leads: pointed elsewhere, it would be said twice."""
        del at
        ready = self.stage.phase is Phase.LOAD and ledger.agreed.is_sure
        if not (isinstance(outcome, Succeeded) and ready):
            del self._asking[ledger.queue]
            return
        some = self._drawn(ledger)
        ledger.excuses.fewer(some.get("replicas", ledger.settings.replicas))
        eras = ledger.agreed.altering(self.now, partial(altered, ledger.settings, some))
        ask = calls.Alter(ledger.queue, tuple(some.items()))
        self.ask(ask, partial(self._told, ledger, some, eras), target=outcome.value.master)

    def _drawn(self, ledger: Ledger) -> dict[str, int]:
        """One or two things, and perhaps how many copies there are."""
        chance, now = self.chance, ledger.settings
        lease = Duration(chance.randrange(milliseconds(300), seconds(6)))
        drawn = {
            "items_max": chance.choice((0, 3, 20, 60)),
            "bytes_max": chance.choice((0, 200, 2_000)),
            "lease": in_reach(replace(now, lease=lease), self._style, 8).lease,
            "deliveries_max": chance.choice((1, 2, 3, 1_000)),
            "inline_max": chance.choice((0, 100, 1 << 20)),
        }
        names = chance.sample(list(drawn), chance.choice((1, 1, 2)))
        some = {name: drawn[name] for name in names}
        if most := self._copies(ledger):
            some |= {"replicas": chance.choice(most), "durable_copies": 0}
        return some

    def _copies(self, ledger: Ledger) -> list[int]:
        """How many there may be, so that as many as ever must be safe; in half of what is altered.

        What is lost with so many disks is excused by the settings that it was made with.
        """
        least, nodes = ledger.terms.copies_needed, min(5, len(self.stage.targets))
        if self.chance.random() < 0.5:
            return []
        return [one for one in range(1, nodes + 1) if one // 2 + 1 >= least]

    def _told(
        self,
        ledger: Ledger,
        some: dict[str, int],
        eras: list[Era],
        outcome: Outcome[Any],
        at: Instant,
    ) -> None:
        del self._asking[ledger.queue]
        if not self.sent_once:
            return
        match outcome:
            case Succeeded():
                ledger.agreed.altered(eras, at)
                ledger.settings = replace(ledger.settings, **some)
            case Failed():
                ledger.agreed.refused(eras)
            case _:
                pass


def may_grow(ledger: Ledger) -> None:
    """Nobody said how many copies there are: there may be more, and a majority must be safe."""
    for replicas in range(2, REPLICAS_USUAL + 1):
        for durable in (1, 0):
            more = {"replicas": replicas, "durable_copies": durable}
            ledger.agreed.altering(START, partial(altered, ledger.settings, more))


def altered(settings: QueueSettings, some: dict[str, int], terms: Terms) -> Terms:
    """What is agreed with some of it altered."""
    del terms  # one thing after another: these are its settings
    return terms_of(replace(settings, **some))
