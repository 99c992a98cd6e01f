"""What the recorded history says of the promises, and what it counts beside them."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.check import Ended, History, Invalid, Kind, Operation
from snowmelt_world.check.conservation import Counts, check_conservation
from snowmelt_world.check.fifo_leased import check_fifo_leased
from snowmelt_world.check.verdict import Valid
from snowmelt_world.storms.events import SECOND, done, read_events
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.queues.recording import SeenPlaces
from snowmelt_world.storms.queues.waits import longest, untouched, waits_of

LOST: Final = "nothing is lost"
REVIVED: Final = "nothing comes after its acknowledgement"
FOREIGN: Final = "nothing comes that nobody put"
DOUBLED: Final = "nothing is in the queue twice"
ORDER: Final = "items come in their order"
TOKENS: Final = "no two leases have one token"


def judge_queue(folder: Path, seconds: float, ended: int) -> Judgement:
    """Reads all that was recorded; the load ended at that moment, and later nothing is a stall."""
    places, recorded = _places(folder), _recorded(folder)
    history = _history(recorded, places.unseen)
    with (folder / "history.jsonl").open("wb") as out:
        out.writelines(history.lines())
    events = read_events(folder)
    waits = waits_of(recorded)
    well = untouched(waits, done(events))
    counts, properties = _properties(history, places)
    puts, gets = history.succeeded(Kind.PUT), history.succeeded(Kind.GET)
    acks = [ack for ack in history.succeeded(Kind.ACK) if ack.process != "drain"]
    counted = {
        "items put": counts.put,
        "items got": counts.got,
        "delivered again": counts.duplicated,
        "puts of unknown outcome in the end": len(history.unknown(Kind.PUT)),
        "gets of unknown outcome": sum(map(_is_lost_get, recorded)),
        "acknowledgements of unknown outcome": len(history.unknown(Kind.ACK)),
        "items a second, put and acknowledged": round(sum(len(a.values) for a in acks) / seconds),
        "longest put (s)": longest(waits, Kind.PUT),
        "longest get (s)": longest(waits, Kind.GET),
        "longest put that met no fault (s)": longest(well, Kind.PUT),
        "longest get that met no fault (s)": longest(well, Kind.GET),
        "longest time without any put (s)": _stall(puts, ended),
        "longest time without any get (s)": _stall([get for get in gets if get.values], ended),
    }
    return Judgement(
        operations=len(recorded),
        longest_wait_s=longest(waits, Kind.PUT, Kind.GET),
        properties=properties,
        counted=counted | {f"calls: {name}": count for name, count in _attempts(folder).items()},
    )


def _properties(history: History, places: SeenPlaces) -> tuple[Counts, dict[str, list[str]]]:
    conservation, order = check_conservation(history), check_fifo_leased(history)
    counts = conservation.report
    assert isinstance(counts, Counts), conservation
    said = [str(conservation)]
    certain = isinstance(conservation, Valid) or counts.revived or counts.unexpected
    doubled = [f"item {item} is at {where}" for item, where in places.doubled.items()]
    tokens = [f"token {token} was given {times} times" for token, times in places.twice.items()]
    return counts, {
        # All was emptied, so what is undecided is no better than what is lost.
        LOST: said if counts.lost or not certain else [],
        REVIVED: said if counts.revived else [],
        FOREIGN: said if counts.unexpected else [],
        DOUBLED: doubled,
        ORDER: [str(order)] if isinstance(order, Invalid) else [],
        TOKENS: tokens,
    }


def _recorded(folder: Path) -> list[Operation]:
    found: list[Operation] = []
    for one in sorted(folder.glob("history-*.jsonl")):
        with one.open("rb") as lines:
            found += History.read(lines)
    return found


def _history(recorded: list[Operation], unseen: tuple[int, ...]) -> History:
    """All that was recorded, as one history.

    A get of unknown outcome may have taken items; these say that they were delivered before when
    they come again, so it is known which they are, though not which get it was.
    """
    gets = [one for one in recorded if _is_lost_get(one)]
    kept = [one for one in recorded if not _is_lost_get(one)]
    if unseen:
        earliest = min((get.called for get in gets), default=0)
        kept.append(Operation("somebody", Kind.GET, unseen, earliest, None, Ended.UNKNOWN))
    return History.of(kept)


def _is_lost_get(operation: Operation) -> bool:
    return operation.kind is Kind.GET and operation.ended is Ended.UNKNOWN


def _places(folder: Path) -> SeenPlaces:
    whole = SeenPlaces()
    for one in sorted(folder.glob("places-*.msgpack")):
        whole.add(msgspec.msgpack.decode(one.read_bytes(), type=SeenPlaces))
    return whole


def _attempts(folder: Path) -> dict[str, int]:
    whole: Counter[str] = Counter()
    for one in folder.glob("attempts-*.json"):
        whole.update(msgspec.json.decode(one.read_bytes(), type=dict[str, int]))
    return dict(sorted(whole.items()))


def _stall(operations: list[Operation], end: int) -> float:
    returned = sorted(one.returned or 0 for one in operations)
    ends = [one for one in returned if one <= end] + [end] * bool(returned)
    return round(max((b - a for a, b in pairwise(ends)), default=0) / SECOND, 2)
