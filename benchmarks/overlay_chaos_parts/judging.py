"""What the journals say of the promises, and what they count beside them."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.starving import read_starving
from benchmarks.overlay_chaos_parts.draining import DRAIN
from benchmarks.overlay_chaos_parts.history import Call, Seen, history_of, seen
from benchmarks.overlay_chaos_parts.passing import Order, ordered
from benchmarks.overlay_chaos_parts.plan import Plan

from snowmelt.check import Ended, Kind, Verdict
from snowmelt.check.conservation import Counts, check_conservation
from snowmelt.check.history import Value
from snowmelt.check.leases import check_leases
from snowmelt.check.sequence import check_linear, check_sequence
from snowmelt.check.verdict import Valid

SHOWN: Final = 3
SLACK: Final = 30_000_000_000
"""So many nanoseconds after a client gave up, and its lease ended, what it may have had is free."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was promised and counted."""

    put: int
    acknowledged: int
    """Of what was put, in the load."""
    perhaps: int
    """Acknowledgements of these have an unknown outcome, and they never came again."""
    drained: int
    """Of them, `dead` were brought back."""
    dead: int
    lost: int
    revived: int
    """Delivered after an acknowledgement."""
    doubled: int
    """Acknowledged twice."""
    unexpected: int
    """Got, and never put, or refused."""
    redelivered: int
    unknown_puts: int
    unknown_gets: int
    refused_puts: int
    unknown_acks: int
    late_acks: int
    late_early: int
    """Refused before their lease was over: copies were away, as it should be."""
    judged: int
    """Items whose turn was judged."""
    excused: int
    """How often one was passed that a get of unknown outcome may have had."""
    items_per_second: int
    """Put and acknowledged, over the time of the load."""
    longest_put: float
    longest_get_stall: float
    """For so many seconds no get with something was answered."""
    starved: float
    """So long a process stood in line for a processor meanwhile."""
    verdicts: list[str]
    broken: list[str]


def judge(folder: Path, plan: Plan, begin: int, end: int) -> Judgement:
    """Reads all that was recorded; the load lasted from `begin` to `end`."""
    saw = seen(folder)
    operations = [call.operation for call in saw.calls] + saw.emptied
    history = history_of(operations, folder / "history.jsonl")
    checks = [check_linear, check_leases, check_conservation]
    if not plan.keyed:  # phases are shared, and keep no client's own order
        checks.insert(0, check_sequence)
    verdicts = [check(history) for check in checks]
    counts = verdicts[-1].report
    assert isinstance(counts, Counts), verdicts[-1]
    order = ordered(saw, round(plan.lease * 1e9) + SLACK)
    account = _Account(saw)
    stall, start, stop = _stall(saw, begin, end)
    acks = saw.of(Kind.ACK)
    return Judgement(
        put=len(account.put),
        acknowledged=len(account.put & account.acked),
        perhaps=len(account.put & account.perhaps - account.acked - account.drained),
        drained=len(account.put & account.drained - account.acked),
        dead=saw.redriven,
        lost=len(account.lost),
        revived=counts.revived,
        doubled=len(account.doubled),
        unexpected=counts.unexpected,
        redelivered=counts.duplicated,
        unknown_puts=len(history.unknown(Kind.PUT)),
        unknown_gets=len(history.unknown(Kind.GET)),
        refused_puts=sum(one.operation.ended is Ended.FAILED for one in saw.of(Kind.PUT)),
        unknown_acks=sum(_open(one) and not one.late for one in acks),
        late_acks=sum(one.late for one in acks),
        late_early=_early(saw),
        judged=order.judged,
        excused=order.excused,
        items_per_second=round(len(account.acked) * 1e9 / (end - begin)),
        longest_put=_longest_put(saw),
        longest_get_stall=stall,
        starved=read_starving(folder).seconds(start, stop),
        verdicts=[*map(str, verdicts), *order.wrong[:SHOWN]],
        broken=list(_broken(verdicts, order, account)),
    )


class _Account:
    """What became of each item."""

    def __init__(self, saw: Seen) -> None:
        puts = [one.operation for one in saw.of(Kind.PUT)]
        self.put = {id_ for one in puts if one.ended is Ended.SUCCEEDED for id_ in one.values}
        times: Counter[Value] = Counter()
        self.acked: set[Value] = set()
        self.drained: set[Value] = set()
        self.perhaps: set[Value] = set()
        for call in saw.of(Kind.ACK):
            one = call.operation
            if one.ended is Ended.SUCCEEDED:
                times.update(one.values)
                (self.drained if one.process == DRAIN else self.acked).update(one.values)
            else:
                self.perhaps.update(one.values)
        self.lost = self.put - self.acked - self.drained - self.perhaps
        self.doubled = [id_ for id_, count in times.items() if count > 1]


def _broken(verdicts: list[Verdict], order: Order, account: _Account) -> Iterator[str]:
    for verdict in verdicts:  # all was emptied, so each must be certain
        if not isinstance(verdict, Valid):
            yield str(verdict)
    if order.wrong:
        yield f"{len(order.wrong)} times a more urgent item was passed: {order.wrong[0]}"
    for what, ids in (("lost", account.lost), ("acknowledged twice", account.doubled)):
        if ids:
            yield f"{len(ids)} items were {what}, such as {sorted(map(int, ids))[:SHOWN]}"


def _open(call: Call) -> bool:
    return call.operation.ended is Ended.UNKNOWN


def _early(saw: Seen) -> int:
    held = {
        one.operation.token: one.operation.held or 0
        for one in saw.of(Kind.GET)
        if one.operation.token is not None
    }
    said = [one.operation for kind in (Kind.ACK, Kind.BACK) for one in saw.of(kind) if one.late]
    return sum(one.called < held.get(one.token or 0, 0) - 1_000_000_000 for one in said)


def _longest_put(saw: Seen) -> float:
    took = [
        one.operation.until - one.operation.called
        for one in saw.of(Kind.PUT)
        if one.operation.ended is Ended.SUCCEEDED
    ]
    return round(max(took, default=0) / 1e9, 2)


def _stall(saw: Seen, begin: int, end: int) -> tuple[float, int, int]:
    """The longest time without any get that got something, and from when to when."""
    gets = [one.operation for one in saw.of(Kind.GET) if one.operation.values]
    answered = sorted(one.until for one in gets if begin <= one.until <= end)
    start, stop = max(pairwise([begin, *answered, end]), key=lambda pair: pair[1] - pair[0])
    return round((stop - start) / 1e9, 2), start, stop
