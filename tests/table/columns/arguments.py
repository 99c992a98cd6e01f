"""What a call is given, and what it finds: odd values, used buffers, bounds, names, no time."""

import enum
import inspect
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

import snowmelt
from snowmelt.core.errors import SnowmeltError
from table.account import Wrong, expect
from table.bench import MARGIN, Bench, in_time
from table.columns import Column, Failures
from table.faces import Row, arguments
from table.own import Own
from table.recipes import RECIPES, Act, drive


class Ordinal(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


FOREVER = (None, 2**31, 2**63, 2**64, 10**400, 1e300, math.inf)
"""As a time-out these say: as long as it takes."""
ODD: list[Any] = [
    *(*FOREVER, True, 0, -1, 1, 0.5, -0.0, 1e-9, math.nan, -math.inf),
    *("", "x" * 300, "a/b", "\0", "\ud800", "é" * 100, Text("sub")),
    *(b"", b"x", bytearray(b"x"), memoryview(b"xy")[::2]),
    *((), [], {}, {"a": 1}, {1: "a"}, {"a": "\ud800"}, [None], [b"a", 1], ["a"], (1, 2, 3)),
    *(np.int64(3), np.int32(-1), np.float64("nan"), np.array([1, 2]), Ordinal.ONE),
    *(object(), iter(()), print),
]
SECONDS = 6.0


def extreme(bench: Bench, rows: list[Row]) -> Failures:
    """Each argument is given each odd value, one at a time."""

    def cell(own: Own) -> None:
        names = given_by_name(own.row)
        wrong: list[str] = []
        for name in names:
            few = len(names) > 1 and not bench.long
            odd = ODD[::3] if few else ODD
            if "endless" in RECIPES[own.row].words:
                odd = [one for one in odd if not any(one is other for other in FOREVER)]
            for value in odd:
                with bench.hit():
                    said = tried(bench, own, name, value)
                let_go(own)
                if said:
                    wrong.append(f"{name}={value!r:.40}: {said}")
                    if bench.plants or len(wrong) > 3:
                        raise Wrong("; ".join(wrong))
        if wrong:
            raise Wrong("; ".join(wrong))

    return bench.cells_apart(rows, cell)


class Tried(Exception):
    """It has an answer; what its recipe does with one is not asked."""


def tried(bench: Bench, own: Own, name: str, value: Any) -> str:
    """What is wrong with the answer; an error of ours, or Python's of a wrong type, is not."""
    begin = time.monotonic()

    def around(act: Act) -> Any:
        try:
            given = with_argument(act, name, value)
            if name != "timeout" and "timeout" in inspect.signature(act.call).parameters:
                given = with_argument(given, "timeout", 0.5)
            answer = bench.call(given)
        except (SnowmeltError, TypeError):
            raise
        except BaseException as error:
            raise Wrong(f"{type(error).__name__}: {error}") from error
        took = time.monotonic() - begin
        expect(took < SECONDS + MARGIN, "it took {} s", took)
        close = getattr(answer, "close", None)
        if callable(close):
            close()
        raise Tried

    try:
        drive(own, around)
    except Wrong as wrong:
        text = str(wrong)
        return text if ":" in text.split(" ", maxsplit=1)[0] or "took" in text else ""
    except Exception:  # what came of an odd value is not what the recipe expects
        return ""
    return ""


def with_argument(act: Act, name: str, value: Any) -> Act:
    """The same call with another value for one of its arguments."""
    signature = inspect.signature(act.call)
    named = dict(act.named)
    if name not in signature.parameters:
        return Act(act.call, *act.arguments, **{**named, name: value})
    bound = signature.bind_partial(*act.arguments, **named)
    bound.arguments[name] = value
    return Act(act.call, *bound.args, **bound.kwargs)


def let_go(own: Own) -> None:
    """Nobody has the baton for the next value."""
    held = own.held() if own.row.kind == "baton" and own.held else None
    if held is not None:
        with suppress(SnowmeltError):
            held.release()


def given_by_name(row: Row) -> list[str]:
    """What a program gives to it: not what Python gives to `__exit__`, nor further options."""
    inner = {"kind", "error", "traceback"}
    named = arguments(row).items()
    return [name for name, one in named if name not in inner and one.kind != one.VAR_KEYWORD]


def no_arguments(row: Row) -> str:
    return "" if given_by_name(row) else "it takes no arguments"


# --- buffers --------------------------------------------------------------------------------------

BUFFERS = {"body", "bodies", "items", "value"}


def no_buffer(row: Row) -> str:
    given = BUFFERS & set(arguments(row))
    read = row.call.endswith(".value")
    return "" if given and not read else "it takes no bytes to keep"


def used_again(bench: Bench, rows: list[Row]) -> Failures:
    """What was handed in is the caller's again: one buffer for all bodies, and then overwritten."""

    def around(act: Act) -> Any:
        buffers: list[bytearray] = []

        def one_buffer(bodies: list[bytes]) -> Iterator[bytearray]:
            buffer = bytearray()
            buffers.append(buffer)
            for body in bodies:
                buffer[:] = body
                yield buffer

        def changed(argument: Any) -> Any:
            if isinstance(argument, bytes):
                buffers.append(bytearray(argument))
                return buffers[-1]
            if isinstance(argument, list) and argument and isinstance(argument[0], bytes):
                return one_buffer(argument)
            return argument

        answer = bench.call(Act(act.call, *map(changed, act.arguments), **act.named))
        for buffer in buffers:
            buffer[:] = b"?" * len(buffer)
        return answer

    def cell(own: Own) -> None:
        for pad in (0, 5_000, 70_000, *([300_000] if bench.long else [])):
            own.pad = pad
            drive(own, around)
        time.sleep(0.06 if bench.plants else 0)
        own.pad = 0

    return bench.cells(rows, cell)


# --- a full bound ---------------------------------------------------------------------------------

ADDS = {"put", "put_many", "room", "publish", "await_room"}


def no_room_needed(row: Row) -> str:
    if row.kind == "topic":
        return "a topic keeps nothing, so it has no bound"
    if row.kind == "step":
        return "what has no room waits until there is some, and the step has happened"
    return "" if row.call.partition(".")[2] in ADDS else "it puts nothing in"


def full(bench: Bench, rows: list[Row]) -> Failures:
    """The queue holds as many as it may: `Full` in time, and nothing of it is there."""

    def cell(own: Own) -> None:
        own.bound = 3
        own.fill(1)
        with suppress(snowmelt.Full):
            for _ in range(3):
                body = own.new()
                with own.puts(body):
                    own.queue.put(body, timeout=0)

        def around(act: Act) -> Any:
            begin = time.monotonic()
            try:
                with bench.hit():
                    return bench.call(with_argument(act, "timeout", 0.2))
            finally:
                in_time(0.2, begin)

        try:
            drive(own, around)
        except SnowmeltError as error:
            expect(isinstance(error, snowmelt.Full), "it is full, and says {}", repr(error))
        for _ in range(3):
            with own.queue.get(timeout=1) as item, own.takes_off(own.came(item)):
                pass

    return bench.cells(rows, cell)


# --- names and time -------------------------------------------------------------------------------

NO_QUEUES: Final = {"pool", "baton", "counter", "topic"}


def two_kinds(bench: Bench, rows: list[Row]) -> Failures:
    """What else may have the same name has it, with something in it, which stays."""

    def cell(own: Own) -> None:
        name, judge = own.name, own.judge
        queues = [judge.fifo(name)] if own.row.kind in NO_QUEUES else []
        for queue in queues:
            queue.put(b"other")
        judge.counter(name).next()
        if own.row.kind != "topic":
            judge.multicast(name).publish(b"other")
        if own.row.kind not in {"baton", "cluster", "folder"}:
            with judge.baton(name) as held:
                held.value = b"other"
        with bench.hit():
            drive(own, bench.call)
        for queue in queues:
            expect([bytes(one.body) for one in queue.peek()] == [b"other"], "it is untouched")

    return bench.cells(rows, cell)


COLUMNS = [
    Column("extreme arguments", "Each argument is 0, -1, 2^63, 10^400, nan, inf, empty, huge, of a "
           "wrong type, of numpy: an answer or an error of ours, in time.", extreme,
           ("overflows",), no_arguments),
    Column("buffer used again", "What was handed in is used again at once: what was put is what "
           "it held then.", used_again, ("keeps_buffers", "crashes"), no_buffer),
    Column("full bound", "The queue holds as many as it may: `Full` in time, and there is nothing "
           "of it.", full, ("lies", "tarries"), no_room_needed),
    Column("two kinds of one name", "Topics, counters, batons and queues of the same name are "
           "there; none touches another.", two_kinds, ("forgets", "crashes")),
]  # fmt: skip
