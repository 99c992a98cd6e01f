"""One queue as a line of a table, and its settings by the names that people give them.

Rates are reckoned from two looks: what came in, and was given out, between them.
"""

import msgspec

from snowmelt.client.queue.overviews import QueueOverview
from snowmelt.core.instant import SECOND
from snowmelt.protocols.queue.api.settings import FLAGS, OF_KEYS, QueueSettings, shown_weights
from snowmelt.protocols.queue.api.statuses import QueueStatus


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """One queue, as a row of a table."""

    queue: str
    order: str = ""
    paused: bool = False
    ready: int = 0
    delayed: int = 0
    leased: int = 0
    dead: int = 0
    bytes: int = 0
    oldest: float | None = None
    """For how many seconds its oldest item has been ready."""
    in_per_second: float | None = None
    out_per_second: float | None = None
    put: int = 0
    delivered: int = 0
    leader: str = ""
    term: int = 0
    copies: int = 0
    """So many are whole."""
    replicas: int = 0
    copied: int = 100
    """Of a hundred parts of its copy, how many the follower has that lacks most."""
    short_of_copies: int = 0
    """Items on fewer nodes than they should be."""
    away: tuple[str, ...] = ()
    waits: str = ""


def queue_row(now: QueueOverview, before: QueueStatus | None, seconds: float) -> QueueRow:
    """One queue, with rates if it was looked at before."""
    status = now.status
    if status is None:
        return QueueRow(queue=now.name, waits=now.waits)
    settings = status.settings
    missing = settings.replicas - 1 - len(status.followers)  # nobody stands in for a node that left
    behind = min(max(status.followers_behind, len(now.away), missing), settings.replicas - 1)
    came, went = _rates(status, before, seconds)
    return QueueRow(
        queue=now.name,
        order=order(settings),
        paused=status.paused,
        ready=status.ready,
        delayed=status.delayed,
        leased=status.leased,
        dead=status.dead,
        bytes=status.bytes,
        oldest=status.oldest_ready,
        in_per_second=came,
        out_per_second=went,
        put=status.put,
        delivered=status.delivered,
        leader="+".join(sorted(set(status.leaders) - {""})) or status.leader,
        term=status.term,
        copies=settings.replicas - behind,
        replicas=settings.replicas,
        copied=status.copied,
        short_of_copies=status.short_of_copies,
        away=now.away,
        waits=_away(status.away),
    )


def order(settings: QueueSettings) -> str:
    """Which order a queue has, in short.

    >>> order(QueueSettings()), order(QueueSettings(priorities=4))
    ('fifo', '4 priorities')
    """
    kind = f"{settings.priorities} priorities" if settings.priorities else settings.kind
    kind = "fifo" if settings.priorities == 1 else kind
    return kind if settings.partitions == 1 else f"{kind} in {settings.partitions} parts"


def _away(parts: tuple[int, ...]) -> str:
    """Of several partitions, those that nobody leads."""
    named = ", ".join(map(str, parts))
    return f"nobody leads partition{'s' if len(parts) > 1 else ''} {named}" if parts else ""


def _rates(
    now: QueueStatus, before: QueueStatus | None, seconds: float
) -> tuple[float | None, float | None]:
    """In and out each second. Another queue of the name, or one that lost some, has none yet."""
    if before is None or seconds <= 0:
        return None, None
    came, went = now.put - before.put, now.delivered - before.delivered
    if came < 0 or went < 0:
        return None, None
    return came / seconds, went / seconds


def settings_object(settings: QueueSettings) -> dict[str, object]:
    """Settings by the names of the options that set them, times in seconds."""
    return _priorities(settings) | {
        "replicas": settings.replicas,
        "durable_copies": settings.durable_copies,
        "flush": settings.linger / SECOND if settings.linger else "always",
        "lease": settings.lease / SECOND,
        "max_deliveries": settings.deliveries_max,
        "max_items": settings.items_max,
        "max_bytes": settings.bytes_max,
        "inline_max": settings.inline_max,
        "retention": settings.retention / SECOND,
        "partitions": settings.partitions,
        **_by_key(settings),
        **({"weights": shown_weights(settings.weights)} if settings.weights else {}),
    }


def _by_key(settings: QueueSettings) -> dict[str, object]:
    """Those that are on."""
    values = {option: getattr(settings, name) for option, name in OF_KEYS.items()}
    return {
        option: bool(value) if option in FLAGS else value
        for option, value in values.items()
        if value
    }


def _priorities(settings: QueueSettings) -> dict[str, object]:
    if settings.priorities == 1:
        return {}
    named = settings.priorities or settings.kind
    return {"priorities": named, "largest_first": settings.largest_first}
