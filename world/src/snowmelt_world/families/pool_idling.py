"""Who is idle beside whom, in lives of a pool in which many stand still, and no more goes wrong.

Some of those who are there, up to all but two, stand still at once, and with them the nodes or not;
then all go on for a while. A consumer is idle beside a producer while all of this is so: both run;
it waits for a get; it was told that it may probe the other; and that has an object which it never
gave to anybody. Whoever begins to stand still may take a request with it: the time begins anew.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds, spelled
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_world.families.pool_ledger import Ledger
from snowmelt_world.families.pool_users import Program
from snowmelt_world.faults import Pause
from snowmelt_world.network import LinkStyle
from snowmelt_world.world import Broken

LOOK_EVERY: Final = milliseconds(50)
SHORTEST: Final = seconds(3)
LONGEST: Final = seconds(12)
NODES_TOO: Final = 0.5
"""How often the nodes stand still as well."""
SLOW: Final = 0.4
"""How many take a while for all that they say and hear."""
SLOWNESS: Final = milliseconds(50)


def stops_of(
    chance: Random, nodes: Sequence[NodeId], peers: Sequence[NodeId], since: Instant, end: Instant
) -> tuple[Pause, ...]:
    """Draws who stands still when."""
    drawn: list[Pause] = []
    at = since
    while (until := later(at, Duration(chance.randrange(SHORTEST, LONGEST)))) < end:
        who = chance.sample(list(peers), chance.randint(1, max(1, len(peers) - 2)))
        who += nodes if chance.random() < NODES_TOO else ()
        drawn += [Pause(at, until, one) for one in who]
        at = later(until, Duration(chance.randrange(SHORTEST)))
    return tuple(drawn)


def slow_of(chance: Random, peers: Sequence[NodeId]) -> dict[NodeId, Duration]:
    """Draws who is slow, and how much."""
    drawn = [one for one in peers if chance.random() < SLOW]
    return {one: Duration(chance.randrange(SLOWNESS)) for one in drawn}


class Idling:
    """Knows who stands still, and who may probe whom."""

    def __init__(
        self, stops: Sequence[Pause], slow: Sequence[Duration], style: LinkStyle, ledger: Ledger
    ) -> None:
        self._stops = stops
        own = max(slow, default=0) * 8 + sum(slow) * 2
        self._talk = Duration(own + 4 * style.delay_min + 20 * style.delay_mean)
        """How long a question, a request and their answers take, past all that are slow."""
        self._ledger = ledger
        self._known: dict[NodeId, dict[NodeId, Instant]] = {}

    def acquainted(self, consumer: NodeId, producers: Iterable[NodeId], at: Instant) -> None:
        """It may probe these from now on, and no others."""
        before = self._known.get(consumer, {})
        self._known[consumer] = {one: before.get(one, at) for one in producers}

    def look(self, running: Sequence[Program], now: Instant) -> None:
        """Raises `Broken` when somebody is idle for longer than may be."""
        for one in running:
            settings = one.part.settings
            begun = one.waits_since(now)
            most = Duration(settings.wait * 6 // 5 + self._talk)
            choosy = settings.access.kind is AccessKind.WEIGHTED
            if choosy or not settings.wait or later(begun, most) >= now:
                continue
            for other in running:
                since = self._beside(one, begun, other, now)
                if since is not None and later(since, most) < now:
                    idle = spelled(Duration(now - since))
                    wait = spelled(settings.wait)
                    text = f"{one.part.name} is idle beside {other.part.name} for {idle}"
                    raise Broken(f"{text}, and its wait is {wait}", one.part.node)

    def _beside(self, one: Program, begun: Instant, other: Program, now: Instant) -> Instant | None:
        """Since when the one idles beside the other; None when it does not."""
        pair = one.part.node, other.part.node
        known = self._known.get(pair[0], {}).get(pair[1])
        has = self._ledger.has_since(other.part)
        if known is None or has is None or any(stop.node in pair for stop in self._still(now)):
            return None
        moments = [stop.at for stop in self._stops if stop.at <= now]
        woke = [stop.until for stop in self._stops if stop.node in pair and stop.until <= now]
        return max(begun, known, has, *moments, *woke)

    def _still(self, now: Instant) -> list[Pause]:
        return [stop for stop in self._stops if stop.at <= now < stop.until]
