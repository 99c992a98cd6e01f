"""Judges histories that are too large for one machine: the same rules, part by part, on Spark.

`check/cuts.py` says how a history may be cut, and `check/parts.py` what is made of its parts. Here
is who does it:

1. *Lines* are read as Spark reads text, in splits. The number of an operation is where its split
   starts plus its place there: as each line has a byte at least, no two have the same, and they
   grow along the history. Files of one history follow each other, `FILE` apart.
2. One scan finds the facts. A second one, where a rule needs ranges, finds what each is given.
3. The rows of all cuts are shuffled by their parts in one job, and each part is judged. What it
   finds comes to the driver: a few rows for each part and rule.
4. All passages of a fifo are judged by one executor.
5. The lines of those operations that a verdict names are looked up in one more scan.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, starmap
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # Spark's own word
from pyspark.storagelevel import StorageLevel

from snowmelt.core.errors import BadHistory, BadOption
from snowmelt.spark.trial import check_executors
from snowmelt.spark.where import at_once, has_local_files, is_local
from snowmelt_world.check import fifo
from snowmelt_world.check.cuts import VALUES
from snowmelt_world.check.fifo import Illegal
from snowmelt_world.check.history import Operation
from snowmelt_world.check.parts import (
    Facts,
    Found,
    Part,
    Plan,
    Ranked,
    Verdicts,
    check_passages,
    decoded,
)
from snowmelt_world.check.properties import known, usual_if
from snowmelt_world.check.verdict import Verdict

FILE: Final = 1 << 44
"""More than the bytes of a file."""
OPERATIONS_A_PART: Final = 200_000
ROWS_AT_ONCE: Final = 10_000
LINES_AT_ONCE: Final = 20_000
FOUND: Final = 0
PASSAGES: Final = 1

Batches = Iterator[pa.RecordBatch]
Thing = TypeVar("Thing")
ROW: Final = pa.schema(
    [
        ("history", pa.int32()),
        ("cut", pa.int32()),
        ("part", pa.int32()),
        ("number", pa.int64()),
        ("place", pa.int32()),
        ("line", pa.binary()),
    ]
)
KEYS: Final = ROW.names[:3]
ROW_TYPES: Final = "history int, cut int, part int, number long, place int, line binary"
TOLD: Final = pa.schema([("kind", pa.int32()), ("history", pa.int32()), ("payload", pa.binary())])
TOLD_TYPES: Final = "kind int, history int, payload binary"


class Judged(msgspec.Struct, frozen=True):
    """The verdicts on a history, and how many operations it has."""

    operations: int
    verdicts: list[Verdict]
    alone: dict[str, str]
    """Of which properties one executor judged a part, and why."""


def check(
    session: SparkSession, histories: Sequence[str], properties: Sequence[str] = ()
) -> list[Judged]:
    """For each history one verdict for each property, as `check_history` has it.

    A history is a file of JSON lines, or a folder of such files, which follow each other by their
    names; all executors must see them. Without `properties` the usual ones are judged.

        (judged,) = check(session(), ["history.jsonl"], ["conservation"])
    """
    names = known(properties)
    if not is_local(session):
        check_executors(session)
    lines = _Lines(session, histories)
    facts = lines.facts()
    tasks = at_once(session)
    plans = [
        Plan.of(
            names or usual_if(ordered=one.ordered),
            max(tasks, one.operations // OPERATIONS_A_PART),
            one,
        )
        for one in facts
    ]
    plans = _ranged(lines, plans)
    judged = _judged(lines, plans).persist(StorageLevel.DISK_ONLY)
    try:
        found = _payloads(judged.where(F.col("kind") == FOUND), list[Found])
        orders = _orders(judged, facts) if any(fifo.NAME in one.properties for one in plans) else {}
    finally:
        judged.unpersist()
    verdicts = [
        Verdicts(plan, one, [each for told in found.get(at, ()) for each in told], orders.get(at))
        for at, (plan, one) in enumerate(zip(plans, facts, strict=True))
    ]
    operation = lines.looked_up({number for one in verdicts for number in one.numbers})
    alone = [
        {name: rule.cut.together for name, _, rule in plan.rules if rule.cut.together}
        for plan in plans
    ]
    told = [one.told(operation.__getitem__) for one in verdicts]
    return list(starmap(Judged, zip((one.operations for one in facts), told, alone, strict=True)))


# --- lines ----------------------------------------------------------------------------------------


class _Lines:
    """The lines of all histories, with the number of the first one of each split (rule 1)."""

    def __init__(self, session: SparkSession, histories: Sequence[str]) -> None:
        paths = [_path(session, history) for history in histories]
        owners: list[int] = []
        files: list[str] = []
        for at, path in enumerate(paths):
            try:
                own = sorted(session.read.text(path).inputFiles())
            except AnalysisException as error:
                allowed = f"a file of operations, or a folder of such ({error.getCondition()})"
                raise BadOption("HISTORY", histories[at], allowed) from error
            owners += [at] * len(own)
            files += own
        start = F.col("_metadata.file_block_start")
        if len(files) > 1:
            names = [one.replace("file:///", "file:/") for one in files]  # as the column has it
            words = [F.lit(word) for at, name in enumerate(names) for word in (name, at * FILE)]
            start += F.create_map(*words)[F.col("_metadata.file_path")]
        text = session.read.text(paths, lineSep="\n")
        self.frame = text.select(F.col("value").cast("binary").alias("line"), start.alias("start"))
        self.count = len(paths)
        self.owner: Callable[[int], int] = lambda number: owners[number // FILE]
        """The history of an operation's number."""
        self._starts: list[int] = []

    def facts(self) -> list[Facts]:
        """Of each history (rule 2); raises for the first line that is no operation."""

        def told(batches: Batches) -> Batches:
            for start, rows in groupby(_numbered(batches), key=lambda row: row[0]):
                facts = Facts(start)
                for some in _chunks(rows, LINES_AT_ONCE):
                    facts += Facts.of(start, [line for _, _, line in some])
                yield _told([(FOUND, 0, facts)])

        facts = [Facts(0) for _ in range(self.count)]
        splits = _payloads(self.frame.mapInArrow(told, TOLD_TYPES), Facts).get(0, [])
        splits.sort(key=lambda one: one.start)
        self._starts = [one.start for one in splits]
        for one in splits:
            owner = self.owner(one.start)
            facts[owner] += one
        for one in facts:
            if one.bad is not None:
                line, why = one.bad
                raise BadHistory(f"line {line} of the history is no operation: {why}")
        return facts

    def looked_up(self, numbers: set[int]) -> dict[int, Operation]:
        """The operations of these numbers (rule 5)."""
        if not numbers:
            return {}
        splits = {self._starts[bisect_right(self._starts, number) - 1] for number in numbers}

        def wanted(batches: Batches) -> Batches:
            for _, number, line in _numbered(batches):
                if number in numbers:
                    yield pa.RecordBatch.from_pydict({"number": [number], "line": [line]})

        near = self.frame.where(F.col("start").isin(splits))
        rows = near.mapInArrow(wanted, "number long, line binary").collect()
        return {row.number: decoded(row.line) for row in rows}


def _path(session: SparkSession, place: str) -> str:
    here = "://" not in place and has_local_files(session)
    return f"file://{Path(place).resolve()}" if here else place


def _numbered(batches: Batches) -> Iterator[tuple[int, int, bytes]]:
    """The start of its split, its number and the line, of each."""
    split, number = -1, 0
    for batch in batches:
        starts, lines = (batch.column(name).to_pylist() for name in ("start", "line"))
        for start, line in zip(starts, lines, strict=True):
            number = start if start != split else number + 1
            split = start
            yield split, number, line


def _operations(batches: Batches) -> Iterator[tuple[int, bytes, Operation]]:
    for _, number, line in _numbered(batches):
        if line.strip():
            yield number, line, decoded(line)


# --- parts ----------------------------------------------------------------------------------------


def _ranged(lines: _Lines, plans: list[Plan]) -> list[Plan]:
    """With what each range is given, where there are ranges (rule 2)."""
    if not any(cut.reach for plan in plans for cut in plan.cuts):
        return plans
    owner = lines.owner

    def ranked(batches: Batches) -> Batches:
        for at, rows in groupby(_operations(batches), key=lambda row: owner(row[0])):
            yield _told([(FOUND, at, list(plans[at].ranked(rows).items()))])

    told = lines.frame.mapInArrow(ranked, TOLD_TYPES)
    highest = _payloads(told, list[tuple[tuple[str, int], Ranked]])
    each = ([one for some in highest.get(at, ()) for one in some] for at in range(len(plans)))
    return [plan.with_given(own) for plan, own in zip(plans, each, strict=True)]


def _judged(lines: _Lines, plans: Sequence[Plan]) -> DataFrame:
    """What is found in the parts of all cuts, and the numbers of a fifo's passages (rule 3)."""
    owner = lines.owner
    cuts = [list(enumerate(plan.cuts)) for plan in plans]

    def rows_of(number: int, line: bytes, one: Operation) -> Iterator[tuple[Any, ...]]:
        history = owner(number)
        plan = plans[history]
        for at, cut in cuts[history]:
            for part, place, told in plan.routed(cut, one, line):
                yield history, at, part, number, place, told

    def routed(batches: Batches) -> Batches:
        rows = (row for told in _operations(batches) for row in rows_of(*told))
        for some in _chunks(rows, ROWS_AT_ONCE):
            yield _batch(some, ROW)

    def judge(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        history, at, number = (one.as_py() for one in key)
        plan, cut = plans[history], cuts[history][at][1]
        columns = (table.column(name).to_pylist() for name in ("number", "place", "line"))
        part = Part(plan, cut, number, zip(*columns, strict=True))
        told: list[tuple[int, int, object]] = [(FOUND, history, list(part.found()))]
        if cut.name == VALUES.name and fifo.NAME in plan.properties:
            told.append((PASSAGES, history, part.passages()))
        return pa.Table.from_batches([_told(told)])

    parts = max(plan.parts for plan in plans)
    rows = lines.frame.mapInArrow(routed, ROW_TYPES).repartition(parts, *KEYS)
    return rows.groupBy(*KEYS).applyInArrow(judge, TOLD_TYPES)


def _orders(judged: DataFrame, facts: Sequence[Facts]) -> dict[int, Illegal]:
    """Which histories have none (rule 4)."""
    lost = [one.lost for one in facts]

    def order(batches: Batches) -> Batches:
        parts: dict[int, list[list[bytes]]] = {}
        for batch in batches:
            columns = (one.to_pylist() for one in batch.columns)
            for _, history, payload in zip(*columns, strict=True):
                parts.setdefault(history, []).append(msgspec.msgpack.decode(payload))
        for history in sorted(parts):
            passages = [b"".join(column) for column in zip(*parts.pop(history), strict=True)]
            found = check_passages(passages, lost[history])
            if found is not None:
                yield _told([(PASSAGES, history, found)])

    passages = judged.where(F.col("kind") == PASSAGES).coalesce(1)
    told = _payloads(passages.mapInArrow(order, TOLD_TYPES), Illegal)
    return {history: one for history, (one,) in told.items()}


# --- bytes ----------------------------------------------------------------------------------------


def _told(rows: Iterable[tuple[int, int, object]]) -> pa.RecordBatch:
    encode = msgspec.msgpack.encode
    return _batch([(kind, history, encode(thing)) for kind, history, thing in rows], TOLD)


def _payloads(frame: DataFrame, of: Any) -> dict[int, list[Any]]:
    """What was told, by the history."""
    decode = msgspec.msgpack.Decoder(of).decode
    told: dict[int, list[Any]] = {}
    for row in frame.collect():
        told.setdefault(row.history, []).append(decode(row.payload))
    return told


def _batch(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(cells, one.type) for cells, one in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(things: Iterable[Thing], size: int) -> Iterator[list[Thing]]:
    some: list[Thing] = []
    for thing in things:
        some.append(thing)
        if len(some) == size:
            yield some
            some = []
    yield some
