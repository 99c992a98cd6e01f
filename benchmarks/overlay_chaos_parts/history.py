"""What the journals of a run's clients say, as the history that any judge reads.

A call that was begun and never ended was that of a client that was killed: nobody knows what came
of it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.journals import read
from benchmarks.overlay_chaos_parts.draining import DRAIN
from benchmarks.overlay_chaos_parts.journal import Line, What

from snowmelt.check import Ended, History, Kind, Operation

BEGINS: Final = {
    What.PUTTING: Kind.PUT,
    What.GETTING: Kind.GET,
    What.ACKING: Kind.ACK,
    What.BACKING: Kind.BACK,
}
ENDS: Final = {
    What.PUT: Ended.SUCCEEDED,
    What.REFUSED: Ended.FAILED,
    What.GOT: Ended.SUCCEEDED,
    What.NOTHING: Ended.SUCCEEDED,
    What.SETTLED: Ended.SUCCEEDED,
}
"""All others end with an outcome that nobody knows."""


class Call(msgspec.Struct, frozen=True):
    """One call, with what a history does not tell."""

    operation: Operation
    most: int = 0
    """How many a get asked for."""
    failures: tuple[int, ...] = ()
    """Of what it got: how often each was delivered in vain."""
    late: bool = False
    """Whether a lease was said to be over."""


class Seen(msgspec.Struct):
    """All that the clients of a run saw."""

    calls: list[Call] = []
    emptied: list[Operation] = []
    redriven: int = 0

    def of(self, kind: Kind) -> list[Call]:
        """The calls of a kind."""
        return [call for call in self.calls if call.operation.kind is kind]


def seen(folder: Path) -> Seen:
    """Reads all journals of a run."""
    whole = Seen()
    for path in [*sorted(folder.glob("clients-*.jsonl")), folder / f"{DRAIN}.jsonl"]:
        by_client: dict[str, list[Line]] = {}
        for line in read(path, Line):
            by_client.setdefault(line.who, []).append(line)
            if line.what is What.EMPTIED:
                whole.emptied.append(Operation(DRAIN, Kind.DRAIN, (), line.at, line.at))
            whole.redriven += line.most if line.what is What.REDRIVEN else 0
        for lines in by_client.values():
            whole.calls += calls(lines)
    return whole


def calls(lines: Iterable[Line]) -> Iterator[Call]:
    """Of one client, which makes one after the other."""
    begun: Line | None = None
    for line in lines:
        if line.what in BEGINS:
            assert begun is None, f"{line} before {begun} had ended"
            begun = line
        elif begun is not None:
            yield call(begun, line)
            begun = None
    if begun is not None:
        yield call(begun, None)


def call(begun: Line, ended: Line | None) -> Call:
    """One, from its two lines."""
    kind = BEGINS[begun.what]
    how = Ended.UNKNOWN if ended is None else ENDS.get(ended.what, Ended.UNKNOWN)
    if ended is not None and ended.what is What.UNHEARD and not ended.most:
        how = Ended.FAILED
    known = ended if ended is not None and how is Ended.SUCCEEDED else None
    got = known if kind is Kind.GET else None
    operation = Operation(
        begun.who,
        kind,
        got.ids if got is not None else begun.ids,
        begun.at,
        None if how is Ended.UNKNOWN or ended is None else ended.at,
        how,
        priorities=got.priorities if got is not None else begun.priorities,
        positions=known.positions if known is not None else (),
        orders=known.orders if known is not None else (),
        token=got.token or None if got is not None else begun.token or None,
        held=begun.at + got.most if got is not None and got.ids else None,
    )
    late = ended is not None and ended.what is What.LATE
    failures = got.failures if got is not None else ()
    return Call(operation, begun.most, failures, late)


def history_of(operations: Iterable[Operation], path: Path) -> History:
    """As one, which is written down too."""
    history = History.of(operations)
    with path.open("wb") as out:
        out.writelines(history.lines())
    return history
