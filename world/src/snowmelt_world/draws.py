"""How a life's injuries are drawn from its seed.

Kinds are switched on by a coin each before any injury is drawn, so that many lives hold a few kinds
in a strange mixture and few hold all of them: more corners are seen than with everything always on.
What costs most of a life (a disk that is lost, a copy put back) comes up less often. A calm life
holds up to four kinds, each for certain: what goes wrong there has nothing else to hide behind.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.core.instant import MILLISECOND, SECOND, Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt_world import faults

CALM_MOST: Final = 4
BEGUN: Final = Instant(5 * SECOND)
"""By then every process has begun, and has something on its disk."""
HOUR: Final = 3_600 * SECOND


class Cast(msgspec.Struct, frozen=True):
    """Who can be hurt, the founder first, and until when."""

    nodes: tuple[NodeId, ...]
    clients: tuple[NodeId, ...]
    """Names that there may be; a fault of one that there is not in this life hurts nobody."""
    end: Instant


Draw = Callable[[Random, Instant, Instant, Cast], faults.Fault]


def _partition(chance: Random, at: Instant, until: Instant, cast: Cast) -> faults.Fault:
    shape = chance.choice(["halves", "isolate-one", "one-way", "flapping"])
    size = 1 if shape == "isolate-one" else chance.randrange(1, max(2, len(cast.nodes)))
    side = tuple(sorted(chance.sample(list(cast.nodes), min(size, len(cast.nodes)))))
    period = milliseconds(chance.randrange(50, 4_000)) if shape == "flapping" else Duration(0)
    return faults.Partition(at, until, shape, side, shape == "one-way", period)


# --- the harder ones --------------------------------------------------------------------------


def _spread(chance: Random, least: Duration, most: Duration) -> Duration:
    """Short ones as likely as long ones: each doubling has the same share."""
    return Duration(int(least * (most / least) ** chance.random()))


def _until(chance: Random, at: Instant, least: Duration, most: Duration, cast: Cast) -> Instant:
    return min(later(at, _spread(chance, least, most)), cast.end)


def _cut_links(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    """Up to three links, for up to a minute: more than three times as long as it takes to miss."""
    until = _until(chance, at, Duration(SECOND // 5), Duration(60 * SECOND), cast)
    nodes = cast.nodes
    one_way = chance.random() < 0.3
    if len(nodes) >= 4 and chance.random() < 0.4:
        # Of any two links at most one end is needed: three who hear each other are left, and the
        # founder, who must hear all.
        ends = chance.sample(nodes[1:], 2 * chance.randint(1, (len(nodes) - 1) // 2))
        pairs = tuple(zip(ends[::2], ends[1::2], strict=True))
        return faults.CutLinks(at, cast.end, pairs, one_way, stays=True)
    known = [(one, other) for one in nodes for other in nodes if one != other]
    drawn = chance.sample(known, min(len(known), chance.choice((1, 1, 2, 3))))
    return faults.CutLinks(at, until, tuple(drawn), one_way)


def _split(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND // 5), Duration(40 * SECOND), cast)
    nodes = chance.sample(cast.nodes, chance.randrange(len(cast.nodes)))
    clients = [client for client in cast.clients if chance.random() < 0.5]
    return faults.Split(at, until, tuple(sorted([*nodes, *clients])), chance.random() < 0.3)


def _one_door(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND), Duration(40 * SECOND), cast)
    return faults.OneDoor(at, until, _client(chance, cast), chance.choice(cast.nodes))


def _client_pause(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND // 2), Duration(40 * SECOND), cast)
    return faults.ClientPause(at, until, _client(chance, cast))


def _client(chance: Random, cast: Cast) -> NodeId:
    return chance.choice(cast.clients or cast.nodes)


def _long_pause(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(12 * SECOND), Duration(40 * SECOND), cast)
    return faults.LongPause(at, until, chance.choice(cast.nodes))


def _failing_disk(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND // 2), Duration(10 * SECOND), cast)
    return faults.FailingDisk(at, until, chance.choice(cast.nodes))


def _slow_disk(chance: Random, at: Instant, until: Instant, cast: Cast) -> faults.Fault:
    extra = _spread(chance, Duration(SECOND // 5), Duration(8 * SECOND))
    return faults.SlowDisk(at, until, chance.choice(cast.nodes), extra)


def _older_disk(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    """The founder's in half of them."""
    at, until = _away(chance, max(at, later(BEGUN, SECOND)), cast)
    node = cast.nodes[0] if chance.random() < 0.5 else chance.choice(cast.nodes)
    age = _spread(chance, Duration(SECOND // 10), Duration(40 * SECOND))
    return faults.OlderDisk(at, until, node, max(Instant(at - age), BEGUN))


def _lost_disk(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    at, until = _away(chance, at, cast)
    return faults.LostDisk(at, until, chance.choice(cast.nodes[1:] or cast.nodes))


def _lost_founder(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    at, until = _away(chance, at, cast)
    return faults.LostFounder(at, until, cast.nodes[0])


def _away(chance: Random, at: Instant, cast: Cast) -> tuple[Instant, Instant]:
    begun = min(max(at, BEGUN), Instant(cast.end - MILLISECOND))
    return begun, _until(chance, begun, Duration(SECOND // 2), Duration(5 * SECOND), cast)


def _wall_clock(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    """Half of them are wrong from the beginning on: by a millisecond, or by twelve hours."""
    by = _spread(chance, MILLISECOND, Duration(12 * HOUR)) * chance.choice((-1, 1))
    begin = Instant(0) if chance.random() < 0.5 else at
    return faults.WallClock(begin, chance.choice(cast.nodes), Duration(by))


def _quick_restarts(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND), Duration(15 * SECOND), cast)
    node, down = chance.choice(cast.nodes), milliseconds(chance.randint(20, 400))
    last = max(at + 1, until - down)
    times = sorted(chance.randrange(at, last) for _ in range(chance.randint(1, 4)))
    cut: tuple[NodeId, ...] = ()
    if chance.random() < 0.6:
        others = [one for one in cast.nodes if one != node]
        with_it = chance.sample(others, chance.randrange(len(others)) if others else 0)
        cut = tuple(sorted([node, *with_it]))
    return faults.QuickRestarts(at, until, node, tuple(map(Instant, times)), down, cut)


def _rolling_restart(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    down = _spread(chance, milliseconds(20), Duration(3 * SECOND))
    up = _spread(chance, milliseconds(200), Duration(8 * SECOND))
    nodes = tuple(chance.sample(cast.nodes, len(cast.nodes)))
    whole = len(nodes) * (down + up)
    begin = Instant(max(0, min(at, cast.end - whole)))
    return faults.RollingRestart(
        begin, min(later(begin, Duration(whole)), cast.end), nodes, down, up
    )


def _power_cut(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    """Of all nodes mostly; a flush takes up to two seconds before it."""
    nodes = _most(chance, cast)
    at = min(max(at, BEGUN), Instant(cast.end - SECOND))
    fails = later(at, _spread(chance, Duration(SECOND // 2), Duration(10 * SECOND)))
    fails = min(fails, Instant(cast.end - SECOND // 2))
    until = _until(chance, fails, Duration(SECOND // 5), Duration(5 * SECOND), cast)
    extra = _spread(chance, milliseconds(200), Duration(2 * SECOND))
    return faults.PowerCut(at, until, nodes, fails, extra)


def _stalls(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(10 * SECOND), Duration(40 * SECOND), cast)
    times = sorted(chance.randrange(at, until) for _ in range(chance.randint(10, 80)))
    length = _spread(chance, milliseconds(50), Duration(3 * SECOND))
    return faults.Stalls(at, until, _most(chance, cast), tuple(map(Instant, times)), length)


def _most(chance: Random, cast: Cast) -> tuple[NodeId, ...]:
    """All nodes, mostly."""
    if chance.random() < 0.7:
        return cast.nodes
    return tuple(sorted(chance.sample(cast.nodes, chance.randint(1, len(cast.nodes)))))


def _restart_in_cut(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND // 2), Duration(8 * SECOND), cast)
    node, down = chance.choice(cast.nodes), milliseconds(chance.randint(20, 400))
    last = max(at + 1, until - down)
    times = sorted(chance.randrange(at, last) for _ in range(chance.choice((1, 1, 2))))
    others = [one for one in cast.nodes if one != node]
    deaf = chance.choice(others)
    unheard = (node,) if chance.random() < 0.3 else tuple(n for n in cast.nodes if n != deaf)
    return faults.RestartInCut(at, until, node, tuple(map(Instant, times)), down, deaf, unheard)


def _suspend(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    until = _until(chance, at, Duration(SECOND // 2), Duration(40 * SECOND), cast)
    return faults.Suspend(at, until, chance.choice(cast.nodes))


def _rumour(chance: Random, at: Instant, _: Instant, cast: Cast) -> faults.Fault:
    hearers = tuple(one for one in cast.nodes if chance.random() < 0.7)
    return faults.Rumour(at, hearers, chance.choice((None, *cast.nodes)))


_DRAWS: Final[dict[str, Draw]] = {
    "partition": _partition,
    "cut-links": _cut_links,
    "split": _split,
    "one-door": _one_door,
    "client-pause": _client_pause,
    "long-pause": _long_pause,
    "failing-disk": _failing_disk,
    "slow-disk": _slow_disk,
    "older-disk": _older_disk,
    "lost-disk": _lost_disk,
    "lost-founder": _lost_founder,
    "wall-clock": _wall_clock,
    "quick-restarts": _quick_restarts,
    "rolling-restart": _rolling_restart,
    "power-cut": _power_cut,
    "stalls": _stalls,
    "restart-in-cut": _restart_in_cut,
    "suspend": _suspend,
    "rumour": _rumour,
}


def _drawn(kind: str, chance: Random, at: Instant, until: Instant, cast: Cast) -> faults.Fault:
    match kind:
        case "loss":
            return faults.Loss(at, until, round(chance.uniform(0.01, 0.3), 3))
        case "duplication":
            return faults.Duplication(at, until, round(chance.uniform(0.01, 0.5), 3))
        case "reordering":
            return faults.Reordering(at, until)
        case "delay":
            return faults.Delay(at, until, milliseconds(chance.randrange(10, 5_000)))
        case _ if kind in _DRAWS:
            return _DRAWS[kind](chance, at, until, cast)
        case _:
            return _of_one(kind, chance, at, until, chance.choice(cast.nodes))


def _of_one(kind: str, chance: Random, at: Instant, until: Instant, node: NodeId) -> faults.Fault:
    match kind:
        case "crash":
            return faults.Crash(at, until, node, chance.random() < 0.5)
        case "lost-writes":
            return faults.LostWrites(at, until, node, chance.random() < 0.5)
        case "torn-record":
            return faults.TornRecord(at, until, node, chance.random() < 0.5)
        case "pause":
            return faults.Pause(at, until, node)
        case "slow-node":
            return faults.SlowNode(at, until, node, milliseconds(chance.randrange(5, 500)))
        case "clock-skew":
            return faults.ClockSkew(at, node, chance.randrange(-40_000, 40_000))
        case "clock-jump":
            by = Duration(chance.randrange(MILLISECOND, 60 * SECOND))
            return faults.ClockJump(at, node, by)
        case "flipped-bit":
            return faults.FlippedBit(at, node)
        case "full-disk":
            return faults.FullDisk(at, until, node)
        case "filling-disk":
            return faults.FillingDisk(at, until, node, chance.randrange(4))
        case _:
            raise AssertionError(f"nobody draws {kind}")


_SHARES: Final = {
    **dict.fromkeys(faults.HARDER, 0.3),
    "long-pause": 0.2,
    "older-disk": 0.15,
    "lost-disk": 0.2,
    "lost-founder": 0.02,
    **dict.fromkeys(faults.THEMED, 0.0),
    "suspend": 0.15,
    "rumour": 0.4,
}
"""Of how many lives a kind is part; half, where nothing is said."""
_ONCE: Final = ("older-disk", "lost-founder", "rolling-restart")
_OF_SEVERAL: Final = ("cut-links", "lost-disk", "restart-in-cut", "rumour")


def draw(
    chance: Random,
    allowed: Sequence[str],
    nodes: Sequence[NodeId],
    end: Instant,
    clients: Sequence[NodeId] = (),
    calm: float = 0.0,
    only: Sequence[str] | None = None,
) -> tuple[faults.Fault, ...]:
    """The injuries of one life, in the order they begin; all are over at `end`.

    This share of lives is calm. With `only` it is these kinds, each for certain.
    """
    cast = Cast(tuple(nodes), tuple(clients), end)
    # Every kind has dice of its own, so that leaving one out moves no other.
    dice = {
        kind: Random(chance.getrandbits(64)) for kind in faults.KINDS if kind not in faults.LATEST
    }
    few = _few(Random(chance.getrandbits(64)), calm) if only is None else list(only)
    dice |= {kind: Random(chance.getrandbits(64)) for kind in faults.LATEST}
    drawn: list[faults.Fault] = []
    for kind, own in dice.items():
        on = own.random() >= 1.0 - _SHARES.get(kind, 0.5)
        if kind not in allowed or not (on if few is None else kind in few):
            continue
        if len(nodes) == 1 and kind in _OF_SEVERAL:
            continue
        for _ in range(own.randrange(1, 2 if kind in _ONCE else 4)):
            at = Instant(own.randrange(end))
            until = min(later(at, Duration(own.randrange(MILLISECOND, 20 * SECOND))), end)
            drawn.append(_drawn(kind, own, at, Instant(until), cast))
    return _staying_once(sorted(drawn, key=lambda fault: fault.at))


def _staying_once(injuries: list[faults.Fault]) -> tuple[faults.Fault, ...]:
    """Only the links of the first cut that stays do: else nobody might be left who hear each other.

    >>> cut = faults.CutLinks(Instant(0), Instant(9), (), stays=True)
    >>> [one.stays for one in _staying_once([cut, cut])]
    [True, False]
    """
    kept: list[faults.Fault] = []
    staying = False
    for fault in injuries:
        stays = isinstance(fault, faults.CutLinks) and fault.stays
        kept.append(replace(fault, stays=False) if stays and staying else fault)
        staying = staying or stays
    return tuple(kept)


def _few(chance: Random, share: float) -> list[str] | None:
    """The kinds of a calm life, whatever is allowed; None for a life that is not."""
    if chance.random() >= share:
        return None
    known = [kind for kind in faults.KINDS if kind != "lost-founder" and kind not in faults.LATEST]
    return chance.sample(known, chance.randint(1, CALM_MOST))
