"""Threads that end, exceptions thrown in from outside, Ctrl-C, and a second handle beside."""

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import snowmelt
from snowmelt.core.errors import SnowmeltError
from table.account import Wrong, expect
from table.bench import Bench, again, ended, failure, in_thread
from table.columns import Column, Failures
from table.faces import Row
from table.own import Own
from table.recipes import Act, drive
from throwing import throw_into

OURS = str(Path(snowmelt.__file__).parent)


class Outside(Exception):
    """What another thread throws in."""

    outside = True


class Ended(BaseException):
    """The thread ends here, with all that it has in hand."""


# --- its thread ends ------------------------------------------------------------------------------


def thread_ends(bench: Bench, rows: list[Row]) -> Failures:
    """Threads that make the call and end, after it or in the middle of what it was for."""

    def and_ends(act: Act, plain: bool = False) -> Any:
        if plain:
            act()
        else:
            bench.call(act)
        raise Ended

    def cell(own: Own) -> None:
        in_thread(lambda: drive(own))
        with suppress(Ended):
            in_thread(lambda: drive(own, lambda act: and_ends(act, plain=True)))
        gc.collect()
        in_thread(lambda: drive(own))
        before = census()
        with bench.hit():
            in_thread(lambda: drive(own, bench.call))
            for _ in range(2):
                with suppress(Ended):
                    in_thread(lambda: drive(own, and_ends))
                gc.collect()
        seconds = 0.3 if own.row in bench.plants else 3.0
        wait_for(
            lambda: gone_back(census(), before),
            seconds,
            "(threads, files) are {}, and were {}",
            before,
        )

    return bench.cells(rows, cell)


def census() -> tuple[int, int]:
    """How many threads, and files, this program has."""
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


def gone_back(now: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether nothing is left; two words under way at once had a connection each, which is kept."""
    return now[0] <= before[0] and now[1] <= before[1] + 1


def wait_for(so: Callable[[], bool], seconds: float, sentence: str, before: object) -> None:
    """Soon, or it is wrong."""
    end = time.monotonic() + seconds
    while not so():
        gc.collect()
        if time.monotonic() > end:
            raise Wrong(sentence.format(census(), before))
        time.sleep(0.02)


# --- at one line of ours --------------------------------------------------------------------------


class Line:
    """Throws something in at one of the lines of ours that a call runs through, in this thread."""

    def __init__(self, line: int, throw: Callable[[], None]) -> None:
        self.left = line
        """How many lines are left; below 0 it has counted on."""
        self.thrown = False
        self._throw = throw

    def around(self, call: Callable[[Act], Any]) -> Callable[[Act], Any]:
        def run(act: Act) -> Any:
            sys.settrace(self._call)
            try:
                return call(act)
            finally:
                sys.settrace(None)

        return run

    def _call(self, frame: FrameType, *_: Any) -> Any:
        if frame.f_code.co_name in {"__del__", "_run_code"}:
            return None
        return self._line if frame.f_code.co_filename.startswith(OURS) else None

    def _line(self, _: FrameType, event: str, __: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.thrown = True
                self._throw()
        return self._line


def at_lines(
    bench: Bench, own: Own, throw: Callable[[], None], kind: type[BaseException], run: Any
) -> None:
    """The same call, with this thrown in at one line after the other, or at some of them."""
    count = Line(0, lambda: None)
    run(lambda: drive(own, count.around(lambda act: act())))
    dropped: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, dropped.append
    try:
        for line in sampled(-count.left, 40 if bench.long else 5):
            one = Line(line, throw)
            came_out = False
            try:
                run(lambda one=one: drive(own, one.around(bench.call)))
            except (kind, SnowmeltError):  # ours, as when what was in hand went back
                came_out = True
            gc.collect()  # what an exception has seen is dropped when it is
            if came_out:
                continue
            if one.thrown and not dropped and own.row.call != "Worker.run":
                raise Wrong(f"what was thrown in at line {line} is heard of nowhere")
            dropped.clear()
    finally:
        sys.unraisablehook = hook


def sampled(count: int, most: int) -> list[int]:
    """Some of the numbers from 1 on, evenly; the first and the last are among them."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(at * (count - 1) / (most - 1)) for at in range(most)})


def thrown_in(bench: Bench, rows: list[Row]) -> Failures:
    """`PyThreadState_SetAsyncExc`, by which time limits are made."""

    def throw() -> None:
        throw_into(threading.get_ident(), Outside)

    return bench.cells(rows, lambda own: at_lines(bench, own, throw, Outside, in_thread))


def interrupted(bench: Bench, rows: list[Row]) -> Failures:
    """SIGINT in the main thread."""

    def throw() -> None:
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return bench.cells(
        rows, lambda own: at_lines(bench, own, throw, KeyboardInterrupt, lambda work: work())
    )


# --- two handles ----------------------------------------------------------------------------------


def two_handles(bench: Bench, rows: list[Row]) -> Failures:
    """Two clusters of one program ask for the same at once."""

    def cell(own: Own, other: Own) -> None:
        rounds = 10 if bench.long else 3
        errors: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(rounds):
                    with suppress(snowmelt.Empty):  # the other one was sooner
                        drive(other, bench.call)
            except BaseException as error:
                errors.append(error)

        with bench.hit():
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            for _ in range(rounds):
                with suppress(snowmelt.Empty):
                    drive(own)
            thread.join(20)
        expect(not thread.is_alive(), "the second handle stood still")
        if errors:
            raise errors[0]

    owns, others, tried = [bench.own(row) for row in rows], [], []
    for own in owns:
        row = own.row
        other = (
            own
            if row.kind == "folder"
            else bench.own(row, name=own.name, account=own.account, first=1000)
        )
        others.append(other)
        own.beside = [other]
        tried.append(failure(lambda own=own, other=other: (cell(own, other), again(own))))
    failures = bench.checked(owns, tried)
    for other in others:
        ended(other)
    return failures


def must_be_closed(row: Row) -> str:
    if row.call in {"open", "Cluster.pool", "EmbeddedCluster.pool"}:
        return "what it gives has to be closed, and says so: a thread can't just leave it"
    return ""


def undone(row: Row) -> str:
    if row.call.endswith((".pause", ".resume", ".alter")):
        return "two that pause, resume or alter one queue undo each other"
    return ""


COLUMNS = [
    Column("thread ends", "Threads make the call and end, with something in hand; what they had "
           "comes back, and no thread or file is left.", thread_ends, ("leaks",), must_be_closed),
    Column("exception from outside", "Another thread throws an exception in, at any line of the "
           "call; it comes out, and the account is right.", thrown_in, ("swallows",)),
    Column("SIGINT", "Ctrl-C at any line of the call; it comes out, and the next call works.",
           interrupted, ("swallows",)),
    Column("two handles", "Two clusters of a program make the call on the same thing at once.",
           two_handles, ("forgets", "crashes"), undone),
]  # fmt: skip
