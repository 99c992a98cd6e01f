"""What a running pool does, from two looks at it some seconds apart.

Each process reports by its own clock, so the difference of two reports is divided by the
difference of their ages: it does not matter when they came. Who is in one look only is left out.
"""

from collections.abc import Iterable
from math import ceil
from typing import Final, TypeVar

import msgspec

from snowmelt.core.instant import SECOND
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.introductions import PeerReport, PoolStatus
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.options import Group
from snowmelt_lab.pool.situation import Setting

ALIKE: Final = 2.0
"""Producers whose rates differ by less than this factor count as alike: rates are estimates."""
ENOUGH: Final = 50
"""So many objects tell a rate better than the producer's own estimate, over its last 24."""
Value = TypeVar("Value")
COUNTS: Final = ("age", "put", "put_bytes", "blocked", "gets", "got", "probes", "waited", "using")


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as it runs. Rates are per second and process, times are seconds."""

    producers: int
    consumers: int
    produce_rate: float
    consume_rate: float
    """0 when nobody used an object."""
    object_bytes: int
    groups: tuple[Group, ...]
    setting: Setting
    """Of most processes."""
    reports: bool
    """Whether the processes say how they fare; those of an older release do not."""
    throughput: float
    wait: float
    """Of a get that was answered."""
    probes: float
    producer_use: float
    consumer_use: float


def observed(before: PoolStatus, after: PoolStatus) -> Observed:
    makers = [one.id for one in after.producers]
    made = _differences(_made(before), _made(after), makers)
    used = _differences(_used(before), _used(after), after.consumers)
    rates = [_rate(report, one.rate) for report, one in zip(made, after.producers, strict=True)]
    known = [rate for rate in rates if rate > 0]
    mean = sum(known) / max(1, len(known))
    making, using = _sum(made), _sum(used)
    return Observed(
        producers=len(after.producers),
        consumers=len(after.consumers),
        produce_rate=mean,
        consume_rate=_share(using.got, using.using / SECOND),
        object_bytes=round(_share(making.put_bytes, making.put)) or _size_so_far(after),
        groups=groups_by_rate([rate or mean for rate in rates]) if known else (),
        setting=_setting(after),
        reports=any(report.age for report in (*after.made, *after.used)),
        throughput=sum(_share(one.got, one.age / SECOND) for one in used),
        wait=_share(using.waited / SECOND, using.gets),
        probes=_share(using.probes, using.gets),
        producer_use=max(0.0, 1 - _share(making.blocked, making.age)) if making.age else 0.0,
        consumer_use=_share(using.using, using.age),
    )


def groups_by_rate(rates: Iterable[float]) -> tuple[Group, ...]:
    """Producers of about the same rate together; none when all are.

    >>> groups_by_rate([10.0, 9.0, 1.0, 1.2, 1.1])
    (Group(count=2, rate=9.5), Group(count=3, rate=1.1))
    >>> groups_by_rate([10.0, 9.0, 8.0])
    ()
    """
    groups: list[list[float]] = []
    for rate in sorted(rates, reverse=True):
        if groups and groups[-1][0] < ALIKE * rate:
            groups[-1].append(rate)
        else:
            groups.append([rate])
    if len(groups) < 2:
        return ()
    return tuple(Group(len(one), round(sum(one) / len(one), 9)) for one in groups)


def _made(status: PoolStatus) -> dict[NodeId, PeerReport]:
    ids = (one.id for one in status.producers)
    return dict(zip(ids, status.made, strict=False))


def _used(status: PoolStatus) -> dict[NodeId, PeerReport]:
    return dict(zip(status.consumers, status.used, strict=False))


def _differences(
    before: dict[NodeId, PeerReport], after: dict[NodeId, PeerReport], ids: Iterable[NodeId]
) -> list[PeerReport]:
    """For each what it did meanwhile; nothing for those who were not there before."""
    return [_difference(before.get(one), after.get(one)) for one in ids]


def _difference(before: PeerReport | None, after: PeerReport | None) -> PeerReport:
    if before is None or after is None or after.age <= before.age:
        return PeerReport()
    gained = {one: max(0, getattr(after, one) - getattr(before, one)) for one in COUNTS}
    return msgspec.structs.replace(after, **gained)


def _sum(reports: Iterable[PeerReport]) -> PeerReport:
    known = list(reports)
    return PeerReport(**{one: sum(getattr(report, one) for report in known) for one in COUNTS})


def _rate(report: PeerReport, told: float) -> float:
    free = (report.age - report.blocked) / SECOND
    return report.put / free if report.put >= ENOUGH and free > 0 else told


def _size_so_far(status: PoolStatus) -> int:
    whole = _sum(status.made)
    return round(_share(whole.put_bytes, whole.put))


def _setting(status: PoolStatus) -> Setting:
    """Producers choose the buffers, consumers the rest; what most of them chose."""
    buffers = _most_frequent(report.buffers for report in status.made if report.age)
    chosen = _most_frequent(
        (report.max_hops, report.fan_out, report.access) for report in status.used if report.age
    )
    max_hops, fan_out, access = chosen or (3, 0, "")
    least = ceil(len(status.producers) / max(1, len(status.consumers)))
    uniform = access == AccessKind.UNIFORM.value
    return Setting(
        buffers=max(1, buffers or 5),
        max_hops=max(1, max_hops),
        fan_out=max(fan_out, least) if fan_out else 0,
        access=AccessKind.UNIFORM if uniform else AccessKind.ADAPTIVE,
    )


def _most_frequent(values: Iterable[Value]) -> Value | None:
    counts: dict[Value, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return max(counts, key=counts.__getitem__, default=None)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
