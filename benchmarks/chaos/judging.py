"""What the recorded history says of the promises, and what it counts beside them."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
from benchmarks.chaos.recording import Places

from snowmelt_world.check import Ended, History, Invalid, Kind, Operation, Verdict
from snowmelt_world.check.conservation import Counts, check_conservation
from snowmelt_world.check.fifo_leased import check_fifo_leased
from snowmelt_world.check.verdict import Valid


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was promised and counted."""

    put: int
    got: int
    lost: int | None
    revived: int
    """Delivered after an acknowledgement."""
    doubled: int
    """In the queue twice, at two positions."""
    unexpected: int
    redelivered: int
    unknown_puts: int
    unknown_gets: int
    unknown_acks: int
    items_per_second: int
    """Put and acknowledged, over the time of the load."""
    longest_put_stall: float
    """For so many seconds no put at all was answered."""
    longest_get_stall: float
    longest_put: float
    """What one batch took at most, all its tries together."""
    attempts: dict[str, int]
    verdicts: list[str]
    broken: list[str]


def judge(folder: Path, seconds: float, end: int) -> Judgement:
    """Reads all that was recorded; the load ended at `end`, and after that nothing is a stall."""
    places = _places(folder)
    history, lost_gets = _history(folder, places.unseen)
    conservation = check_conservation(history)
    order = check_fifo_leased(history)
    counts = conservation.report
    assert isinstance(counts, Counts), conservation
    puts, gets = history.succeeded(Kind.PUT), history.succeeded(Kind.GET)
    return Judgement(
        put=counts.put,
        got=counts.got,
        lost=counts.lost,
        revived=counts.revived,
        doubled=len(places.doubled),
        unexpected=counts.unexpected,
        redelivered=counts.duplicated,
        unknown_puts=len(history.unknown(Kind.PUT)),
        unknown_gets=lost_gets,
        unknown_acks=len(history.unknown(Kind.ACK)),
        items_per_second=round(_acknowledged(history) / seconds),
        longest_put_stall=_stall(puts, end),
        longest_get_stall=_stall([get for get in gets if get.values], end),
        longest_put=max((_took(put) for put in puts), default=0.0),
        attempts=_attempts(folder),
        verdicts=[str(conservation), str(order)],
        broken=list(_broken(conservation, order, places.doubled)),
    )


def _broken(conservation: Verdict, order: Verdict, doubled: dict[int, list[int]]) -> Iterator[str]:
    if not isinstance(conservation, Valid):  # all was emptied, so it must be certain
        yield str(conservation)
    if isinstance(order, Invalid):
        yield str(order)
    if doubled:
        item, places = next(iter(doubled.items()))
        yield f"{len(doubled)} items are in the queue twice, such as {item} at {places}"


def _history(folder: Path, unseen: tuple[int, ...]) -> tuple[History, int]:
    """All that was recorded, as one file too.

    A get of unknown outcome may have taken items; they are told to have been delivered before when
    they come again, so it is known which they are, though not which get it was.
    """
    recorded: list[Operation] = []
    for one in sorted(folder.glob("history-*.jsonl")):
        with one.open("rb") as lines:
            recorded += History.read(lines)
        one.unlink()
    gets = [one for one in recorded if _is_lost_get(one)]
    kept = [one for one in recorded if not _is_lost_get(one)]
    if unseen:
        earliest = min((get.called for get in gets), default=0)
        lost = Operation("somebody", Kind.GET, unseen, earliest, None, Ended.UNKNOWN)
        kept.append(lost)
    history = History.of(kept)
    with (folder / "history.jsonl").open("wb") as out:
        out.writelines(history.lines())
    return history, len(gets)


def _is_lost_get(operation: Operation) -> bool:
    return operation.kind is Kind.GET and operation.ended is Ended.UNKNOWN


def _places(folder: Path) -> Places:
    whole = Places()
    for one in sorted(folder.glob("places-*.msgpack")):
        whole.add(msgspec.msgpack.decode(one.read_bytes(), type=Places))
    return whole


def _attempts(folder: Path) -> dict[str, int]:
    whole: Counter[str] = Counter()
    for one in folder.glob("attempts-*.json"):
        whole.update(msgspec.json.decode(one.read_bytes(), type=dict[str, int]))
    return dict(sorted(whole.items()))


def _acknowledged(history: History) -> int:
    acks = [ack for ack in history.succeeded(Kind.ACK) if ack.process != "drain"]
    return sum(len(ack.values) for ack in acks)


def _took(operation: Operation) -> float:
    assert operation.returned is not None
    return round((operation.returned - operation.called) / 1e9, 2)


def _stall(operations: list[Operation], end: int) -> float:
    returned = sorted(one.returned or 0 for one in operations)
    ends = [one for one in returned if one <= end] + [end] * bool(returned)
    return round(max((b - a for a, b in pairwise(ends)), default=0) / 1e9, 2)
