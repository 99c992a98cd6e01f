"""What a client may ask: no value it sends is used before it was looked at here."""

import re
from collections.abc import Callable, Iterable
from operator import le, lt
from typing import Any, Final

from snowmelt.core.batch import OFFSET_BYTES, ONE, Batch
from snowmelt.core.errors import in_short
from snowmelt.core.instant import seconds
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.calls import (
    COMMITTED_MAX,
    PIECES_MAX,
    RECEIPTS_MAX,
    SHARES_MAX,
)
from snowmelt.protocols.queue.api.deletes import Delete
from snowmelt.protocols.queue.api.labels import (
    are_labels,
    checked,
)
from snowmelt.protocols.queue.api.partition_names import (
    home_of,
    known_name,
    part_name,
    part_of,
    whole_of,
)
from snowmelt.protocols.queue.api.schedules import Schedule, Unschedule, known_schedule
from snowmelt.protocols.queue.api.settings import (
    ANY,
    BODY_BYTES_MAX,
    DELAY_LONGEST,
    HEADER_BYTES_MAX,
    HOLD_LONGEST,
    KEY_BYTES_MAX,
    LEASE_LONGEST,
    PUT_BYTES_MAX,
    REPLICAS_MAX,
    UNIQUE_BYTES_MAX,
    QueueSettings,
)
from snowmelt.protocols.queue.api.statuses import PeekHeld
from snowmelt.protocols.queue.limits import LIMITS

INDEX_MAX: Final = 2**62
ITEMS_MAX: Final = 1_000_000
BYTES_MAX: Final = 1 << 40
LABEL_BYTES_MAX: Final = 16 << 20
PATIENCE_LONGEST: Final = seconds(1_000_000)
DIGEST_MAX: Final = 2**64 - 1
RATE_MAX: Final = 1_000_000_000
_OF_USER: Final = r"([A-Za-z0-9][A-Za-z0-9._-]{0,99}/)?"
_PRODUCER: Final = re.compile(_OF_USER + r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_GROUP: Final = re.compile(_OF_USER + r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STREAM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[0-9a-f]{1,32}/[0-9]{1,20}")

Bounds = tuple[tuple[str, float, int, int], ...]
Limits = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]
"""Names, and for each the lowest and the highest that is allowed."""


def _limits(*bounds: tuple[str, int, int]) -> Limits:
    names, lowest, highest = zip(*bounds, strict=True)
    return names, lowest, highest


_GET: Final = _limits(
    ("items_max", 1, ITEMS_MAX),
    ("bytes_max", 1, BYTES_MAX),
    ("timeout", 0, PATIENCE_LONGEST),
    ("position", -1, INDEX_MAX),
    ("lease", 0, LEASE_LONGEST),
)
_PUT: Final = _limits(
    ("sequence", 0, INDEX_MAX),
    ("delay", -DELAY_LONGEST, DELAY_LONGEST),
    ("timeout", 0, PATIENCE_LONGEST),
    ("hold", 0, HOLD_LONGEST),
    ("characters of the caller", 0, 100),
    ("turn", 0, INDEX_MAX),
    ("bytes of the uniqueness key", 0, UNIQUE_BYTES_MAX),
    ("unique_for", 0, HOLD_LONGEST),
)
_SETTLE: Final = _limits(
    ("token", 0, INDEX_MAX),
    ("intervals in one settlement", 0, PIECES_MAX),
    ("position", 0, INDEX_MAX),
    ("delay", -DELAY_LONGEST, DELAY_LONGEST),
    ("bytes of the reason", 0, calls.REASON_BYTES_MAX),
    ("lease", 0, LEASE_LONGEST),
)


def problem(request: Any, wall: int) -> str:
    """Why this request can't be taken; nothing when it can.

    >>> problem(calls.Peek("orders", -1, 1), wall=0)
    'items_max is -1; allowed: 0 to 1000000'
    """
    known_name(request.queue)
    usual = _USUAL.get(type(request))  # a `match` takes longer than what it finds
    return _of_others(request) if usual is None else usual(request, wall)


def _of_others(request: Any) -> str:
    match request:
        case calls.Open(queue, settings, make) if (settings or make) and part_of(queue) is not None:
            return f"queue is {queue!r}; allowed: the queue's own name, to have partitions made"
        case calls.Fetch(_, span, bytes_max):
            return _of_span(span) or _outside((("bytes_max", bytes_max, 1, BYTES_MAX),))
        case calls.Peek() | PeekHeld():
            return _outside(
                (
                    ("items_max", request.items_max, 0, ITEMS_MAX),
                    ("bytes_max", request.bytes_max, 1, BYTES_MAX),
                    ("start", getattr(request, "start", 0), 0, INDEX_MAX),
                )
            )
        case calls.Select(_, rank, share):
            return _outside((("share", share, 0, 1), ("rank", rank, 0, INDEX_MAX)))
        case calls.PublishStaged() | calls.Plan():
            return _of_publish(request)
        case calls.Assign():
            return _of_group(request.group) or _outside(
                (
                    ("characters of the reader", len(request.reader), 1, 100),
                    ("lease", request.lease, 0, INDEX_MAX),
                    ("done", request.done, 0, INDEX_MAX if request.lease else 0),
                    ("items_max", request.items_max, 0, BYTES_MAX),
                    ("bytes_max", request.bytes_max, 1, BYTES_MAX),
                    *[("below", one, 0, INDEX_MAX) for one in request.below],
                )
            )
        case calls.Locate(_, group, _, after, until):
            bounds: Bounds = (("after", after, 0, INDEX_MAX), ("until", until, after, INDEX_MAX))
            return _of_group(group) or _outside(bounds)
        case calls.Survey(_, start, items_max):
            return _outside(
                (("start", start, 0, INDEX_MAX), ("items_max", items_max, 1, ITEMS_MAX))
            )
        case Delete(queue, moved_to=str(to)) | calls.Pause(queue, moving_to=str(to)) if to:
            own = queue_name(to) == whole_of(queue)
            return f"the queue to move to is {to!r}; allowed: another one" if own else ""
        case calls.ReleaseGroup(_, group):
            return _of_group(group)
        case calls.Redrive(_, per_second):
            return _outside((("per_second", per_second, 0, RATE_MAX),))
        case _:
            return ""


def _beyond(limits: Limits, values: tuple[int, ...]) -> str:
    """As `_outside`, for what is asked most: with limits that are put together once."""
    names, lowest, highest = limits
    if all(map(le, (*lowest, *values), (*values, *highest))):
        return ""
    return _outside(tuple(zip(names, values, lowest, highest, strict=True)))


def _outside(bounds: Bounds) -> str:
    for name, value, lowest, highest in bounds:
        if not lowest <= value <= highest:
            return f"{name} is {value}; allowed: {lowest} to {highest}"
    return ""


def _delay(due: int, wall: int) -> int:
    """How long something is to wait, as `Put.due` tells it."""
    return due - wall if due > 0 else -due


def _of_put(put: calls.Put, wall: int) -> str:
    if not _PRODUCER.fullmatch(put.producer):
        return f"producer is {in_short(put.producer)}; allowed: 1 to 100 of A-Z a-z 0-9 . _ : -"
    if put.headers and len(put.headers) > HEADER_BYTES_MAX:
        headers_max = LABEL_BYTES_MAX if are_labels(put.headers) else HEADER_BYTES_MAX
        if len(put.headers) > headers_max:
            return f"bytes of headers is {len(put.headers)}; allowed: 0 to {headers_max}"
    delay = _delay(put.due, wall) if put.due else 0
    if put.home:
        known_name(put.home)
    values = (put.sequence, delay, put.patience, put.hold, len(put.caller), put.turn)
    return _beyond(_PUT, (*values, len(put.unique), put.unique_for))


def _of_get(get: calls.Get, wall: int) -> str:
    wrong = _beyond(_GET, (get.items_max, get.bytes_max, get.patience, get.before, get.lease))
    return wrong or ("" if get.settle is None else _of_settle(get.settle, wall))


def _of_publish(publish: calls.PublishStaged | calls.Plan) -> str:
    if not _PRODUCER.fullmatch(publish.producer):
        return f"producer is {in_short(publish.producer)}; allowed: 1 to 100 of A-Z a-z 0-9 . _ : -"
    plain = _outside(
        (("sequence", publish.sequence, 0, INDEX_MAX), ("digest", publish.digest, 0, DIGEST_MAX))
    )
    if isinstance(publish, calls.PublishStaged):
        return plain or _outside((("receipts", len(publish.receipts), 0, RECEIPTS_MAX),))
    return plain or _of_shares(publish.shares)


def _of_transaction(ask: calls.Commit | calls.Promise, wall: int) -> str:
    """Each lease once, and each queue: their parts are done as wholes."""
    if not _PRODUCER.fullmatch(ask.producer):
        return f"producer is {in_short(ask.producer)}; allowed: 1 to 100 of A-Z a-z 0-9 . _ : -"
    shares = ask.shares if isinstance(ask, calls.Commit) else ()
    others = ask.sources if isinstance(ask, calls.Commit) else (ask.home,)
    patience = ask.patience if isinstance(ask, calls.Commit) else 0
    wrong = _outside(
        (
            ("sequence", ask.sequence, 0, INDEX_MAX),
            ("timeout", patience, 0, PATIENCE_LONGEST),
            ("leases", len(ask.settles), 0, COMMITTED_MAX),
            ("intervals in one step", sum([len(one.done) for one in ask.settles]), 0, PIECES_MAX),
            ("queues", len(shares), 0, COMMITTED_MAX),
            ("queues", len(others), 0, COMMITTED_MAX),
        )
    )
    if wrong:
        return wrong
    for name in others:
        known_name(name)
    for one in ask.settles:
        if one.queue != ask.queue or one.back or one.extend or one.due:
            return f"a settlement in it is of {in_short(one.queue)}; allowed: what ends in it here"
        if wrong := _of_settle(one, wall):
            return wrong
    tokens = {one.token for one in ask.settles}
    if len(tokens) < len(ask.settles) or ask.queue in others:
        return f"a lease or a queue is named twice in a step of {ask.queue!r}; allowed: once"
    if len({one.queue for one in shares}) < len(shares):
        return f"a queue is named twice in a step of {ask.queue!r}; allowed: once"
    return _of_shares(shares)


def _of_shares(shares: tuple[calls.Share, ...]) -> str:
    """These are written down as they are, whether or not there is what they name."""
    count = sum(len(share.receipts) for share in shares)
    wrong = _outside((("queues", len(shares), 0, SHARES_MAX), ("receipts", count, 0, RECEIPTS_MAX)))
    if wrong:
        return wrong
    for share in shares:
        known_name(share.queue)
    receipts = [one for share in shares for one in share.receipts]
    streams = {one.stream for one in receipts}
    return _outside(
        (
            *(("digest", share.digest, 0, DIGEST_MAX) for share in shares),
            ("characters of a stream", max(map(len, streams), default=1), 1, 120),
            ("first", min((one.first for one in receipts), default=0), 0, INDEX_MAX),
            ("stop", max((one.stop for one in receipts), default=0), 0, INDEX_MAX),
            ("items", min((one.stop - one.first for one in receipts), default=1), 1, ITEMS_MAX),
            ("items", max((one.stop - one.first for one in receipts), default=1), 1, ITEMS_MAX),
            ("bytes", min((one.bytes for one in receipts), default=0), 0, BYTES_MAX),
            ("bytes", max((one.bytes for one in receipts), default=0), 0, BYTES_MAX),
        )
    )


def _of_group(name: str) -> str:
    if not _GROUP.fullmatch(name):
        return f"group is {in_short(name)}; allowed: 1 to 64 of A-Z a-z 0-9 . _ -"
    return ""


def _of_schedule(ask: Schedule | Unschedule, _: int) -> str:
    if not known_schedule(ask.name):
        return f"schedule is {in_short(ask.name)}; allowed: 1 to 64 of A-Z a-z 0-9 . _ -"
    return ""


def _of_settle(settle: calls.Settle, wall: int) -> str:
    named = (*settle.done, *settle.back, *settle.alone)
    last = max([one.stop for one in named], default=0)  # no start is below 0, by its type
    delay = _delay(settle.due, wall) if settle.due else 0
    reason_bytes = len(settle.reason.encode("utf-8", "replace")) if settle.reason else 0
    values = (settle.token, len(named), last, delay, reason_bytes, settle.lease)
    return _beyond(_SETTLE, values)


def _of_span(span: calls.Span) -> str:
    if not _STREAM.fullmatch(span.stream):
        return f"stream is {in_short(span.stream)}; allowed: as it came with the lease"
    return _outside(
        (
            ("start", span.start, 0, INDEX_MAX),
            ("stop", span.stop, span.start + 1, span.start + LIMITS.put_items),
            ("first", span.first, 0, INDEX_MAX),
            ("keepers", len(span.keepers), 0, REPLICAS_MAX),
            ("failures", span.failures, 0, INDEX_MAX),
            ("bytes of the reason", len(span.reason.encode()), 0, calls.REASON_BYTES_MAX),
        )
    )


_USUAL: Final[dict[type, Callable[[Any, int], str]]] = {
    calls.Put: _of_put,
    calls.Get: _of_get,
    calls.Settle: _of_settle,
    calls.Commit: _of_transaction,
    calls.Promise: _of_transaction,
    Schedule: _of_schedule,
    Unschedule: _of_schedule,
}
"""What is asked most, and what has its own."""


def put_problem(put: calls.Put, items_max: int, settings: QueueSettings) -> tuple[str, str] | None:
    """Why this put can't be taken, as an error's name and text. Sizes first: they cost nothing."""
    count, bodies = len(put.offsets) // OFFSET_BYTES - 1, len(put.blob)
    if put.unique and put.hold:
        return "BadOption", "unique is for puts that are not staged"
    if put.unique and (wrong := _elsewhere((put.unique,), put.queue, settings)):
        return "BadOption", wrong
    size, priorities = bodies + len(put.headers), settings.priorities
    if count > items_max:
        return "TooLarge", f"{count} items in one put; the limit is {items_max}"
    if bodies > BODY_BYTES_MAX or size > PUT_BYTES_MAX:
        limits = f"{BODY_BYTES_MAX} of bodies, {PUT_BYTES_MAX} with headers"
        return "TooLarge", f"{size} bytes in one put; the limits are {limits}"
    whole = priorities != ANY and not (put.runs or put.keys)
    if whole and put.offsets == ONE.pack(0, bodies):  # one body, as mostly
        wrong = _of_headers(put, 1, settings) if put.headers else ""
        return ("BadOption", wrong) if wrong else None
    try:
        batch = Batch(put.offsets, put.blob)
    except ValueError as error:
        return "BadOption", f"the batch does not read: {error}"
    if put.headers and (wrong := _of_headers(put, count, settings)):
        return "BadOption", wrong
    if count == 0 or batch.size != bodies:
        return "BadOption", f"a batch of {count} items in {bodies} bytes"
    keys = KEY_BYTES * count if priorities == ANY else 0
    if len(put.keys) != keys:
        return "BadOption", f"{len(put.keys)} bytes of keys for {count} items; allowed: {keys}"
    if put.runs and (wrong := _of_runs(put.runs, count, priorities)):
        return "BadOption", wrong
    return None


def _of_headers(put: calls.Put, count: int, settings: QueueSettings) -> str:
    headers = put.headers
    try:
        keys = checked(headers, count)
    except ValueError as error:
        return f"the batch does not read: {error}"
    if (len(headers) <= KEY_BYTES_MAX and settings.partitions == 1) or not settings.by_key:
        return ""
    names = tuple(filter(None, keys or ()))
    longest = max(map(len, names), default=0)
    wrong = _outside((("bytes of the key", longest, 0, KEY_BYTES_MAX),))
    return wrong or _elsewhere(names, put.queue, settings)


def _elsewhere(names: Iterable[bytes], queue: str, settings: QueueSettings) -> str:
    """Whether one of these keys lives in another partition (`leader/parted`, rule 18)."""
    own = part_of(queue)
    for name in dict.fromkeys(names) if own is not None else ():
        home = home_of(name, settings.partitions)
        if home != own:
            there = part_name(whole_of(queue), home)
            return f"key is {name!r}; allowed in {queue!r}: those that live there; its is {there!r}"
    return ""


def _of_runs(runs: tuple[calls.PriorityRun, ...], count: int, priorities: int) -> str:
    named, counts = [one.priority for one in runs], [one.count for one in runs]
    wrong = _outside(tuple([("priority", one, 0, priorities - 1) for one in named]))
    if wrong:
        return wrong
    if not all(map(lt, named, named[1:])):
        return f"priorities are {in_short(named)}; allowed: each once, the least first"
    if min(counts) < 1 or sum(counts) != count:
        return f"runs of {in_short(counts)} items; allowed: some in each, and {count} together"
    return ""
