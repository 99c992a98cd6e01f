"""Judges a history that is too large for one machine: the same rules, part by part, on Spark.

How a history may be cut is told by each rule (`check/cuts.py`). Here is how it is done:

1. *Lines* are read as Spark reads text, in splits. The number of an operation is where its split
   starts plus its place there: as each line has a byte at least, no two have the same, and they
   grow along the history.
2. One scan finds what is told of the whole (`Facts`): how many operations there are, what is
   malformed, what showed the queue to be empty, and a sample of the keys that are ranges. A second
   one, for ranges alone, finds the operation that each range is given from the others.
3. The rows of all cuts are shuffled by their parts in one job, and each part is judged by the same
   functions as a whole history. What it finds comes to the driver: a few rows for each part and
   rule. There they are judged once more, together.
4. The order of a fifo is judged by one executor, of eight numbers a value, which the parts by
   values give.
5. The lines of those operations that a verdict names are looked up in one more scan.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # Spark's own word
from pyspark.storagelevel import StorageLevel

from snowmelt.check import conservation, fifo
from snowmelt.check.conservation import Counts, Setting, conserved
from snowmelt.check.cuts import PASSAGES, VALUES, Cut, Reach
from snowmelt.check.fifo import Illegal, Look, Lost, illegal
from snowmelt.check.history import NEVER, Ended, History, Kind, Operation
from snowmelt.check.passage import Passages
from snowmelt.check.properties import PROPERTIES, known, shown_once, unbroken, usual_if
from snowmelt.check.rules import Rule
from snowmelt.check.verdict import Finding, Undecided, Valid, Verdict
from snowmelt.core.errors import BadHistory, BadOption
from snowmelt.spark.trial import check_executors
from snowmelt.spark.where import at_once, has_local_files, is_local

FILE: Final = 1 << 44
"""More than the bytes of a file."""
OPERATIONS_A_PART: Final = 200_000
PARTS_MAX: Final = 4_000
SAMPLE: Final = 1_000
"""Keys of a split, at most twice as many."""
FOUND, NUMBERS = 0, 1

Thing = TypeVar("Thing")
Batches = Iterator[pa.RecordBatch]
Line = tuple[int, int, bytes]
"""The number of an operation, which of its values it is about, and the operation."""
Ranked = tuple[tuple[int, ...], int, bytes]
Given = tuple[str, int, tuple[int, ...], int, bytes]


class Judged(msgspec.Struct, frozen=True):
    """The verdicts, and which of the properties one executor judged alone, with the reason."""

    operations: int
    verdicts: list[Verdict]
    alone: dict[str, str]


class Facts(msgspec.Struct):
    """What is told of a split."""

    start: int
    lines: int = 0
    operations: int = 0
    bad: tuple[int, str] | None = None
    """The first line that is no operation, and why."""
    ordered: bool = False
    """Whether anything is told that only priority queues have."""
    setting: Setting = Setting()
    lost: Lost = Lost()
    keys: dict[str, list[int]] = {}
    """Of the cuts into ranges."""


class Found(msgspec.Struct, array_like=True):
    """What a rule has to say of a part: the rows that show it."""

    property: str
    rule: int
    rows: list[Line]
    broke: str = ""
    counts: Counts | None = None


class Plan(msgspec.Struct, frozen=True):
    """Which properties are judged, in how many parts."""

    properties: list[str]
    parts: int = 1
    bounds: dict[str, list[int]] = {}
    """Where ranges of keys begin, by the cut."""
    given: dict[str, list[tuple[int, bytes] | None]] = {}
    """For each range an operation from the others."""

    @property
    def rules(self) -> Iterator[tuple[str, int, Rule]]:
        """Each with its property, and its place among the rules of that one."""
        for name in self.properties:
            for place, rule in enumerate(PROPERTIES[name].rules):
                yield name, place, rule

    @property
    def cuts(self) -> list[Cut]:
        """Each once."""
        named = {rule.cut.name: rule.cut for _, _, rule in self.rules}
        if conservation.NAME in self.properties:
            named[VALUES.name] = VALUES
        named.pop(PASSAGES.name, None)
        return list(named.values())

    def parts_of(self, cut: Cut, keys: Iterable[Any]) -> set[int]:
        """The parts in which these keys are, from 0 on."""
        if cut.together:
            return {0}
        if cut.reach is not None:
            return {bisect_right(self.bounds[cut.name], key) for key in keys}
        return {crc32(repr(key).encode()) % self.parts for key in keys}


def check(session: SparkSession, places: Sequence[str], properties: Sequence[str] = ()) -> Judged:
    """One verdict for each property, as `check_history` has it for the same lines.

    `places` are files or folders of JSON lines, which together are one history, in this order; all
    executors must see them. Without `properties` the usual ones are judged.

        judged = check(session(), ["history.jsonl"], ["conservation"])
    """
    names = known(properties)
    if not is_local(session):
        check_executors(session)
    lines = _lines(session, places)
    facts = _facts(lines)
    setting, lost, operations = _summed(facts)
    plan = Plan(
        names or list(usual_if(ordered=any(one.ordered for one in facts))),
        max(at_once(session), min(PARTS_MAX, operations // OPERATIONS_A_PART)),
    )
    plan = _ranged(lines, plan, facts)
    judged = _judged(lines, plan).persist(StorageLevel.DISK_ONLY)
    try:
        found = _decoded(judged.where(F.col("kind") == FOUND), Found)
        order = _order(judged, lost) if fifo.NAME in plan.properties else None
    finally:
        judged.unpersist()
    alone = {name: rule.cut.together for name, _, rule in plan.rules if rule.cut.together}
    verdicts = _Verdicts(lines, facts, found).of(plan, setting, order)
    return Judged(operations, verdicts, alone)


# --- lines ----------------------------------------------------------------------------------------


def _lines(session: SparkSession, places: Sequence[str]) -> DataFrame:
    """Each line, and the number of the first one of its split."""
    paths = [_path(session, place) for place in places]
    files: list[str] = []
    for path in paths:
        try:
            files += sorted(session.read.text(path).inputFiles())
        except AnalysisException as error:
            allowed = "a file of operations, or a folder of such, that all executors see"
            raise BadOption("HISTORY", path, f"{allowed} ({error.getCondition()})") from error
    told = session.read.text(paths, lineSep="\n")
    start = F.col("_metadata.file_block_start")
    if len(files) > 1:
        numbers = [F.lit(word) for at, name in enumerate(files) for word in (name, at * FILE)]
        start += F.create_map(*numbers)[F.col("_metadata.file_path")]
    return told.select(F.col("value").cast("binary").alias("line"), start.alias("start"))


def _path(session: SparkSession, place: str) -> str:
    here = "://" not in place and has_local_files(session)
    return Path(place).resolve().as_uri() if here else place


def _numbered(batches: Batches) -> Iterator[tuple[int, int, bytes]]:
    """The start of its split, its number and the line, of each (rule 1)."""
    split, number = -1, 0
    for batch in batches:
        starts, lines = (batch.column(name).to_pylist() for name in ("start", "line"))
        for start, line in zip(starts, lines, strict=True):
            number = start if start != split else number + 1
            split = start
            yield split, number, line


def _operations(batches: Batches) -> Iterator[tuple[int, bytes, Operation]]:
    decode = msgspec.json.Decoder(Operation).decode
    for _, number, line in _numbered(batches):
        if line.strip():
            yield number, line, decode(line)


def _looked_up(lines: DataFrame, facts: Sequence[Facts], numbers: set[int]) -> dict[int, Operation]:
    """The operations of these numbers (rule 5)."""
    if not numbers:
        return {}
    starts = sorted(one.start for one in facts)
    splits = {starts[bisect_right(starts, number) - 1] for number in numbers}

    def wanted(batches: Batches) -> Batches:
        for _, number, line in _numbered(batches):
            if number in numbers:
                yield pa.RecordBatch.from_pydict({"number": [number], "line": [line]})

    near = lines.where(F.col("start").isin(splits))
    rows = near.mapInArrow(wanted, "number long, line binary").collect()
    return {row.number: msgspec.json.decode(row.line, type=Operation) for row in rows}


# --- what is told of the whole --------------------------------------------------------------------


def _facts(lines: DataFrame) -> list[Facts]:
    """Of each split, in their order; raises for the first line that is no operation."""

    def told(batches: Batches) -> Batches:
        for start, rows in groupby(_numbered(batches), key=lambda row: row[0]):
            yield _payload(_facts_of(start, [(number, line) for _, number, line in rows]))

    facts = _decoded(lines.mapInArrow(told, "payload binary"), Facts)
    facts.sort(key=lambda one: one.start)
    before = 0
    for one in facts:
        if one.bad is not None:
            line, why = one.bad
            raise BadHistory(f"line {before + line} of the history is no operation: {why}")
        before += one.lines
    return facts


def _facts_of(start: int, rows: Sequence[tuple[int, bytes]]) -> Facts:
    facts = Facts(start, len(rows))
    decode = msgspec.json.Decoder(Operation).decode
    operations = []
    for line, (_, text) in enumerate(rows, 1):
        if text.strip():
            try:
                operations.append(decode(text))
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                facts.bad = line, str(error)
                return facts
    facts.operations = len(operations)
    facts.ordered = any(one.priorities or one.orders for one in operations)
    facts.setting = Setting.of(operations)
    lost = [one.called for one in operations if _is_lost(one)]
    facts.lost = Lost(len(lost), min(lost, default=NEVER))
    for cut in {rule.cut for one in PROPERTIES.values() for rule in one.rules if rule.cut.reach}:
        keys: list[Any] = [key for one in operations for key, _, _ in cut.rows(one)]
        facts.keys[cut.name] = keys[:: max(1, len(keys) // SAMPLE)]
    return facts


def _is_lost(one: Operation) -> bool:
    return one.kind is Kind.GET and one.ended is Ended.UNKNOWN


def _summed(facts: Sequence[Facts]) -> tuple[Setting, Lost, int]:
    setting, lost = Setting(), Lost()
    for one in facts:
        setting += one.setting
        lost += one.lost
    return setting, lost, sum(one.operations for one in facts)


def _ranged(lines: DataFrame, plan: Plan, facts: Sequence[Facts]) -> Plan:
    """With the bounds of the ranges, and what each of them is given (rule 2)."""
    ranged = [(cut, cut.reach) for cut in plan.cuts if cut.reach is not None]
    if not ranged:
        return plan
    for cut, _ in ranged:
        keys = sorted(key for one in facts for key in one.keys[cut.name])
        at = (len(keys) * part // plan.parts for part in range(1, plan.parts))
        plan.bounds[cut.name] = [keys[place] for place in at] if keys else []

    def best(batches: Batches) -> Batches:
        held: dict[tuple[str, int], Ranked] = {}
        for number, line, one in _operations(batches):
            for cut, reach in ranged:
                for key, _, _ in islice(cut.rows(one), 1):
                    part = cut.name, min(plan.parts_of(cut, [key]))
                    ranked = reach.rank(one, number), number, line
                    held[part] = max(held.get(part, ranked), ranked)
        yield _payload([(*part, *ranked) for part, ranked in held.items()])

    found = _decoded(lines.mapInArrow(best, "payload binary"), list[Given])
    for cut, reach in ranged:
        own: list[Ranked | None] = [None] * (len(plan.bounds[cut.name]) + 1)
        for name, part, *ranked in sorted(one for told in found for one in told):
            if name == cut.name:
                own[part] = tuple(ranked)  # the last is the highest
        plan.given[cut.name] = [one and one[1:] for one in _from_others(own, reach)]
    return plan


def _from_others(own: list[Ranked | None], reach: Reach) -> list[Ranked | None]:
    """Of each range the highest of all behind it, or before it."""
    highest: list[Ranked | None] = [None]
    for one in own[:0:-1] if reach.back else own[:-1]:
        highest.append(max(filter(None, (highest[-1], one)), default=None))
    return highest[::-1] if reach.back else highest


# --- parts ----------------------------------------------------------------------------------------


def _judged(lines: DataFrame, plan: Plan) -> DataFrame:
    """What is found in the parts of all cuts, and the numbers of a fifo's passages (rule 3)."""
    cuts = plan.cuts

    def routed(batches: Batches) -> Batches:
        encode = msgspec.json.Encoder().encode
        for some in _chunks(_operations(batches), 10_000):
            columns: tuple[list[Any], ...] = ([], [], [], [])
            for number, line, one in some:
                for at, cut in enumerate(cuts):
                    for key, place, told in cut.rows(one):
                        for part in plan.parts_of(cut, [key]):
                            row = at * plan.parts + part, number, place
                            text = line if told is one else encode(told)
                            for column, cell in zip(columns, (*row, text), strict=True):
                                column.append(cell)
            types = (pa.int32(), pa.int64(), pa.int32(), pa.binary())
            arrays = [pa.array(column, of) for column, of in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["part", "number", "place", "line"])

    def judge(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        at, part = divmod(key[0].as_py(), plan.parts)
        columns = (table.column(name).to_pylist() for name in ("number", "place", "line"))
        rows = _Part(plan, cuts[at], part, list(zip(*columns, strict=True)))
        told = [(FOUND, msgspec.msgpack.encode(one)) for one in rows.found()]
        if cuts[at].name == VALUES.name:
            told += [(NUMBERS, msgspec.msgpack.encode(one)) for one in rows.passages()]
        kinds, payloads = zip(*told, strict=True) if told else ((), ())
        arrays = [pa.array(kinds, pa.int32()), pa.array(payloads, pa.binary())]
        return pa.Table.from_arrays(arrays, ["kind", "payload"])

    rows = lines.mapInArrow(routed, "part int, number long, place int, line binary")
    parts = rows.repartition(plan.parts, "part").groupBy("part")
    return parts.applyInArrow(judge, "kind int, payload binary")


class _Part:
    """The rows of one part."""

    def __init__(self, plan: Plan, cut: Cut, part: int, rows: list[Line]) -> None:
        given = plan.given[cut.name][part] if cut.reach is not None else None
        if given is not None:
            rows.append((given[0], 0, given[1]))
        self._plan, self._cut = plan, cut
        self._rows = sorted(set(rows))
        self._history = _history(self._rows)

    def found(self) -> Iterator[Found]:
        if self._cut.name == VALUES.name and conservation.NAME in self._plan.properties:
            verdict = conserved(self._history, Setting())
            rows = [] if isinstance(verdict, Valid) else self._needed(verdict)
            yield Found(conservation.NAME, 0, rows, counts=verdict.report)  # type: ignore[arg-type]
        for name, place, rule in self._plan.rules:
            if rule.cut.name == self._cut.name:
                finding = unbroken(name, rule.judge, self._history)
                if finding is not None:
                    rows = self._needed(finding)
                    yield Found(name, place, rows, "" if rows else _reason(finding))

    def _needed(self, finding: Finding) -> list[Line]:
        """The rows with which a finding is judged again."""
        named = {id(one) for one in finding.example}
        pairs = list(zip(self._rows, self._history, strict=True))
        keyed = [({key for key, _, _ in self._cut.rows(one)}, row, one) for row, one in pairs]
        keys = {key for its, _, one in keyed if id(one) in named for key in its}
        rows: list[Line] = []
        for its, row, one in keyed:
            if id(one) in named or its & keys:
                rows.append(row)
                keys -= set() if self._cut.whole else its
        return rows

    def passages(self) -> Iterator[list[bytes]]:
        """The numbers of its values, and of its gets that found nothing."""
        if fifo.NAME not in self._plan.properties:
            return
        carried: dict[Kind, list[Any]] = {Kind.PUT: [], Kind.GET: []}
        looks: list[Look] = []
        for (number, place, _), one in zip(self._rows, self._history, strict=True):
            if one.kind is Kind.GET and one.ended is Ended.SUCCEEDED and not one.values:
                looks.append(Look(number, one.called, one.until))
            elif one.kind is Kind.PUT or (one.ended is Ended.SUCCEEDED and one.kind is Kind.GET):
                carried[one.kind].append((one.values[0], one, number, place))
        columns = Passages.matched(carried[Kind.PUT], carried[Kind.GET]).columns
        seen = ([getattr(one, name) for one in looks] for name in Look.__struct_fields__)
        yield [column.tobytes() for column in (*columns, *(array("Q", one) for one in seen))]  # type: ignore[attr-defined]


def _reason(finding: Finding) -> str:
    return finding.reason if isinstance(finding, Undecided) else finding.sentence


def _history(rows: Iterable[Line]) -> History:
    decode = msgspec.json.Decoder(Operation).decode
    return History.of(decode(line) for _, _, line in rows)


# --- all together ---------------------------------------------------------------------------------


def _order(judged: DataFrame, lost: Lost) -> Illegal | None:
    """Of all passages, by one executor (rule 4)."""

    def order(batches: Batches) -> Batches:
        told = [msgspec.msgpack.decode(one.as_py()) for batch in batches for one in batch.column(0)]
        columns = [np.frombuffer(b"".join(one), np.uint64) for one in zip(*told, strict=True)]
        del told
        if not columns:
            yield _payload(None)
            return
        numbers, seen = columns[:8], columns[8:]
        sort = np.lexsort((numbers[1], numbers[0]))
        passages = Passages(*(array("Q", column[sort].tobytes()) for column in numbers))
        looks = sorted(map(Look, *(one.tolist() for one in seen)), key=lambda one: one.number)
        yield _payload(illegal(passages, looks, lost))

    numbers = judged.where(F.col("kind") == NUMBERS).select("payload").coalesce(1)
    told = _decoded(numbers.mapInArrow(order, "payload binary"), Illegal | None)
    return next(iter(told), None)


class _Verdicts:
    """Of what was found in the parts, each verdict that the whole history has."""

    def __init__(self, lines: DataFrame, facts: Sequence[Facts], found: list[Found]) -> None:
        self._lines, self._facts, self._found = lines, facts, found
        self._numbers: dict[int, int] = {}
        """Of operations that were found, by their identity."""
        self._held: list[History] = []

    def of(self, plan: Plan, setting: Setting, order: Illegal | None) -> list[Verdict]:
        verdicts = [self._verdict(name, setting) for name in plan.properties]
        named = [one for verdict in verdicts for one in _example(verdict)]
        numbers = {self._numbers[id(one)] for one in named if id(one) in self._numbers}
        numbers |= set(order.numbers) if order is not None else set()
        told = _looked_up(self._lines, self._facts, numbers)
        for at, verdict in enumerate(verdicts):
            if verdict.property == fifo.NAME and isinstance(verdict, Valid) and order is not None:
                verdicts[at] = fifo.told(order, told.__getitem__)
            elif not isinstance(verdict, Valid):
                full = [told.get(self._numbers.get(id(one), -1), one) for one in verdict.example]
                verdicts[at] = msgspec.structs.replace(verdict, example=tuple(full))
        return [shown_once(verdict) for verdict in verdicts]

    def _verdict(self, name: str, setting: Setting) -> Verdict:
        own = [one for one in self._found if one.property == name]
        broke = [one.broke for one in own if one.broke]
        if broke:
            return Undecided(name, broke[0])
        if name == conservation.NAME:
            counts = conservation.added((one.counts for one in own if one.counts), setting)
            return conserved(self._together(own), setting, counts)
        for place, rule in enumerate(PROPERTIES[name].rules):
            rows = [one for one in own if one.rule == place]
            finding = unbroken(name, rule.judge, self._together(rows)) if rows else None
            if finding is not None:
                return finding
        return Valid(name)

    def _together(self, found: Iterable[Found]) -> History:
        rows = sorted({row for one in found for row in one.rows})
        history = _history(rows)
        self._held.append(history)  # or an identity might be given twice
        self._numbers |= {id(one): row[0] for row, one in zip(rows, history, strict=True)}
        return history


def _example(verdict: Verdict) -> tuple[Operation, ...]:
    return () if isinstance(verdict, Valid) else verdict.example


def _payload(thing: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"payload": [msgspec.msgpack.encode(thing)]})


def _decoded(frame: DataFrame, of: Any) -> list[Any]:
    decode = msgspec.msgpack.Decoder(of).decode
    return [decode(row.payload) for row in frame.select("payload").collect()]


def _chunks(things: Iterable[Thing], size: int) -> Iterator[list[Thing]]:
    some: list[Thing] = []
    for thing in things:
        some.append(thing)
        if len(some) == size:
            yield some
            some = []
    yield some
