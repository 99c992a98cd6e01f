"""Histories judged in parts: what is told of a stretch, where rows go, what a part has to say.

Nothing here knows who does the work. Whoever does (`spark/checking.py`):

1. takes `Facts` of stretches of a history, and adds them up;
2. makes a `Plan` of them; for cuts into ranges it finds what each range is given (`Plan.ranked`);
3. sends the rows of each operation (`Plan.routed`) to their parts, and lets each `Part` tell what
   its rules `found`, and the numbers of a fifo's `passages`;
4. has all passages judged together (`check_passages`), and makes verdicts of all of that.

An operation is known by its number, which grows along its history. Several histories may be judged
at once; parts are cut of each alone.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final
from zlib import crc32

import msgspec

from snowmelt_world.check import conservation, fifo
from snowmelt_world.check.conservation import Counts, Setting, conserved
from snowmelt_world.check.cuts import PASSAGES, VALUES, Cut, Reach
from snowmelt_world.check.fifo import Illegal, Look, Lost
from snowmelt_world.check.history import NEVER, Ended, History, Kind, Operation
from snowmelt_world.check.passage import Passages
from snowmelt_world.check.properties import PROPERTIES, shown_once, unbroken
from snowmelt_world.check.rules import Rule
from snowmelt_world.check.verdict import Finding, Undecided, Valid, Verdict

SAMPLE: Final = 200
"""So many keys of a stretch tell where ranges begin, or up to twice as many."""
RANGED: Final = {
    rule.cut.name: rule.cut
    for one in PROPERTIES.values()
    for rule in one.rules
    if rule.cut.reach is not None
}

Line = tuple[int, int, bytes]
"""The number of an operation, which of its values it is about, and the operation."""
Ranked = tuple[tuple[int, ...], int, bytes]
"""How high `Reach` ranks an operation, its number, and the operation."""

decoded: Final = msgspec.json.Decoder(Operation).decode
encoded: Final = msgspec.json.Encoder().encode


class Facts(msgspec.Struct, frozen=True):
    """What is told of a stretch of a history."""

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
    """Some, of the cuts into ranges."""

    @classmethod
    def of(cls, start: int, lines: Sequence[bytes]) -> "Facts":
        operations = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    operations.append(decoded(line))
                except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                    return cls(start, len(lines), bad=(number, str(error)))
        lost = [
            one.called for one in operations if one.kind is Kind.GET and one.ended is Ended.UNKNOWN
        ]
        return cls(
            start,
            len(lines),
            len(operations),
            ordered=any(one.priorities or one.orders for one in operations),
            setting=Setting.of(operations),
            lost=Lost(len(lost), min(lost, default=NEVER)),
            keys={name: _sampled(cut, operations) for name, cut in RANGED.items()},
        )

    def __add__(self, later: "Facts") -> "Facts":
        bad = self.bad
        if bad is None and later.bad is not None:
            bad = self.lines + later.bad[0], later.bad[1]
        return Facts(
            self.start,
            self.lines + later.lines,
            self.operations + later.operations,
            bad,
            self.ordered or later.ordered,
            self.setting + later.setting,
            self.lost + later.lost,
            {name: self.keys.get(name, []) + later.keys.get(name, []) for name in RANGED},
        )


def _sampled(cut: Cut, operations: Iterable[Operation]) -> list[Any]:
    keys = [key for one in operations for key, _, _ in islice(cut.rows(one), 1)]
    return keys[:: max(1, len(keys) // SAMPLE)]


class Found(msgspec.Struct, array_like=True, frozen=True):
    """What a rule has to say of a part: the rows that show it."""

    property: str
    rule: int
    rows: list[Line]
    broke: str = ""
    counts: Counts | None = None


class Plan(msgspec.Struct, frozen=True):
    """Which properties of a history are judged, and how it is cut."""

    properties: tuple[str, ...]
    parts: int
    bounds: dict[str, list[int]] = {}
    """Where ranges begin, by the cut; the first has no bound."""
    given: dict[str, list[tuple[int, bytes] | None]] = {}
    """For each range an operation from the others."""

    @classmethod
    def of(cls, properties: Sequence[str], parts: int, facts: Facts) -> "Plan":
        bounds = {}
        for name, told in facts.keys.items():
            keys = sorted(told)
            bounds[name] = sorted({keys[len(keys) * at // parts] for at in range(1, parts) if keys})
        return cls(tuple(properties), parts, bounds)

    @property
    def rules(self) -> list[tuple[str, int, Rule]]:
        """Each with its property, and its place among the rules of that one."""
        each = [(name, enumerate(PROPERTIES[name].rules)) for name in self.properties]
        return [(name, place, rule) for name, rules in each for place, rule in rules]

    @property
    def cuts(self) -> list[Cut]:
        """Each once."""
        named = {rule.cut.name: rule.cut for _, _, rule in self.rules}
        if {conservation.NAME, fifo.NAME} & set(self.properties):
            named[VALUES.name] = VALUES
        named.pop(PASSAGES.name, None)
        return list(named.values())

    def part(self, cut: Cut, key: Any) -> int:
        """In which part this key is."""
        if cut.reach is not None:
            return bisect_right(self.bounds[cut.name], key)
        return 0 if cut.together else crc32(repr(key).encode()) % self.parts

    def routed(self, cut: Cut, one: Operation, line: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The rows of an operation: part, place, and what is told."""
        for key, place, told in cut.rows(one):
            yield self.part(cut, key), place, line if told is one else encoded(told)

    def ranked(
        self, operations: Iterable[tuple[int, bytes, Operation]]
    ) -> dict[tuple[str, int], Ranked]:
        """Of each range the operation that is ranked highest."""
        ranged = [(cut, cut.reach) for cut in self.cuts if cut.reach is not None]
        highest: dict[tuple[str, int], Ranked] = {}
        for number, line, one in operations:
            for cut, reach in ranged:
                for key, _, _ in islice(cut.rows(one), 1):
                    at = cut.name, self.part(cut, key)
                    ranked = reach.rank(one, number), number, line
                    highest[at] = max(highest.get(at, ranked), ranked)
        return highest

    def with_given(self, highest: Iterable[tuple[tuple[str, int], Ranked]]) -> "Plan":
        """With the highest of the others for each range, of all that was ranked anywhere."""
        told = sorted((at, tuple(ranked)) for at, ranked in highest)
        last = dict(told)
        given = {}
        for name, bounds in self.bounds.items():
            reach = RANGED[name].reach
            own = [last.get((name, part)) for part in range(len(bounds) + 1)]
            given[name] = [one and one[1:] for one in _from_others(own, reach)]
        return msgspec.structs.replace(self, given=given)


def _from_others(own: list[Any], reach: Reach | None) -> list[Any]:
    back = reach is not None and reach.back
    highest: list[Any] = [None]
    for one in own[:0:-1] if back else own[:-1]:
        highest.append(max(filter(None, (highest[-1], one)), default=None))
    return highest[::-1] if back else highest


class Part:
    """The rows of one part."""

    def __init__(self, plan: Plan, cut: Cut, part: int, rows: Iterable[Line]) -> None:
        given = plan.given[cut.name][part] if cut.reach is not None else None
        self._plan, self._cut = plan, cut
        more = [] if given is None else [(given[0], 0, given[1])]
        self._rows = sorted(rows if cut.reach is None else {*rows, *more})
        self._history = history_of(self._rows)

    def found(self) -> Iterator[Found]:
        if self._cut.name == VALUES.name and conservation.NAME in self._plan.properties:
            verdict = conserved(self._history, Setting())
            rows = [] if isinstance(verdict, Valid) else self._needed(verdict)
            counts = verdict.report if isinstance(verdict.report, Counts) else None
            yield Found(conservation.NAME, 0, rows, counts=counts)
        for name, place, rule in self._plan.rules:
            if rule.cut.name == self._cut.name:
                finding = unbroken(name, rule.judge, self._history)
                if finding is not None:
                    rows = self._needed(finding)
                    broke = "" if rows else str(finding).partition(": unknown: ")[2]
                    yield Found(name, place, rows, broke)

    def _needed(self, finding: Finding) -> list[Line]:
        """The rows with which a finding is judged again."""
        keyed = [
            ({key for key, _, _ in self._cut.rows(one)}, row, _is_among(one, finding.example))
            for row, one in zip(self._rows, self._history, strict=True)
        ]
        keys = {key for its, _, named in keyed if named for key in its}
        rows: list[Line] = []
        for its, row, named in keyed:
            if named or its & keys:
                rows.append(row)
                keys -= set() if self._cut.whole else its
        return rows

    def passages(self) -> list[bytes]:
        """Columns of numbers: of its values, then of its gets that found nothing."""
        carried: dict[Kind, list[Any]] = {Kind.PUT: [], Kind.GET: []}
        looks = []
        for (number, place, _), one in zip(self._rows, self._history, strict=True):
            if one.kind is Kind.PUT or (one.kind is Kind.GET and one.ended is Ended.SUCCEEDED):
                if one.values:
                    carried[one.kind].append((one.values[0], one, number, place))
                else:
                    looks.append((number, one.called, one.until))
        columns = Passages.matched(carried[Kind.PUT], carried[Kind.GET]).columns
        seen = zip(*looks, strict=True) if looks else ((), (), ())
        return [array("Q", column).tobytes() for column in (*columns, *seen)]


def _is_among(one: Operation, others: Iterable[Operation]) -> bool:
    return any(one is other for other in others)


def history_of(rows: Iterable[Line]) -> History:
    return History.of(decoded(line) for _, _, line in rows)


def check_passages(columns: Sequence[bytes], lost: Lost) -> Illegal | None:
    """The order of a fifo, of the columns of all its parts."""
    numbers = [array("Q", column) for column in columns]
    values = len(Passages.__struct_fields__)
    looks = sorted(map(Look, *numbers[values:]), key=lambda one: one.number)
    return fifo.illegal(Passages(*numbers[:values]).sorted(), looks, lost)


class Verdicts:
    """Of what was found in its parts, the verdicts that a whole history has."""

    def __init__(
        self, plan: Plan, facts: Facts, found: Sequence[Found], order: Illegal | None
    ) -> None:
        self._facts, self._found, self._order = facts, found, order
        self._numbered: list[tuple[int, Operation]] = []
        """What was found, with its number."""
        self._verdicts = [self._of(name) for name in plan.properties]

    @property
    def numbers(self) -> set[int]:
        """Of the operations that they name."""
        wrong = [one for one in self._verdicts if not isinstance(one, Valid)]
        named = [one for verdict in wrong for one in verdict.example]
        own = {number for number, one in self._numbered if _is_among(one, named)}
        return own | set(() if self._order is None else self._order.numbers)

    def told(self, operation: Callable[[int], Operation]) -> list[Verdict]:
        """With each operation as it was recorded; `operation` has that of a number."""
        return [shown_once(self._full(one, operation)) for one in self._verdicts]

    def _full(self, verdict: Verdict, operation: Callable[[int], Operation]) -> Verdict:
        if not isinstance(verdict, Valid):
            full = (self._recorded(one, operation) for one in verdict.example)
            return msgspec.structs.replace(verdict, example=tuple(full))
        if verdict.property == fifo.NAME and self._order is not None:
            return fifo.told(self._order, operation)
        return verdict

    def _recorded(self, one: Operation, operation: Callable[[int], Operation]) -> Operation:
        numbers = (number for number, other in self._numbered if one is other)
        number = next(numbers, None)
        return one if number is None else operation(number)

    def _of(self, name: str) -> Verdict:
        own = [one for one in self._found if one.property == name]
        broke = [one.broke for one in own if one.broke]
        if broke:
            return Undecided(name, broke[0])
        if name == conservation.NAME:
            setting = self._facts.setting
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
        history = history_of(rows)
        self._numbered += [(number, one) for (number, _, _), one in zip(rows, history, strict=True)]
        return history
