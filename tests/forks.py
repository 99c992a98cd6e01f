"""Tests in several processes that are forked when all tests are collected: nothing is done twice.

`--forks 1,5` has one process for tests that compute, and five for those that wait for nodes, leases
and programs. So cores are busy, and few compute at once beside a test that looks at the clock. A
process takes one file after the other, of its own kind first, and then of what is left. What shares
one Java is one row, which one process does from end to end.
"""

import atexit
import os
import random
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pytest

END_SECONDS: Final = 60
"""So long a process may take to end what its tests began."""

COMPUTING: Final = (
    *("src/", "world/", "tests/check/", "tests/core/", "tests/golden/", "tests/protocols/"),
    *("tests/sim/", "tests/store/", "tests/test_laws", "tests/wire/"),
)
JAVA: Final = "tests/spark/"
"""All that share one Java."""
FIRST: Final = (
    "tests/spark/test_exactly_once.py",
    "tests/cli/test_demo.py",
    "tests/spark/test_java.py",
    "tests/cluster/",
    "tests/cli/test_pipeline.py",
    "tests/spark/",
    "tests/storms/",
    "tests/table/",
    "tests/client/test_baton_faults.py",
    "tests/client/",
    "tests/sim/",
)
"""What is begun with once all that share a Java are: it takes long, or starts one of its own."""
APART: Final = FIRST[:5]


class Row(NamedTuple):
    """Tests that one process does one after the other."""

    computes: bool
    items: list[pytest.Item]


def counts(text: str) -> tuple[int, int]:
    """How many processes compute, and how many wait.

    >>> counts("1,5")
    (1, 5)
    """
    computing, _, waiting = text.partition(",")
    return int(computing), int(waiting)


def rows(items: Iterable[pytest.Item]) -> list[Row]:
    """By file, those first that take longest."""
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        shares = file.startswith(JAVA) and not file.startswith(APART)
        found.setdefault(JAVA if shares else file, []).append(item)
    ordered = sorted(found.items(), key=lambda one: (one[0] != JAVA, _rank(one[0])))
    return [Row(file.startswith(COMPUTING), some) for file, some in ordered]


def _rank(file: str) -> int:
    return next((at for at, path in enumerate(FIRST) if file.startswith(path)), len(FIRST))


def run(session: pytest.Session, computing: int, waiting: int) -> None:
    """All tests of a session; what the processes tell is reported here."""
    todo = rows(session.items)
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    factory.getbasetemp()  # one for all
    started: dict[Connection, Process] = {}
    try:
        for number in range(computing + waiting):
            one = Process(session, todo, computes=number < computing, others=list(started))
            started[one.line] = one
        parent = Parent(session, todo, started)
        while started:
            for line in wait(list(started)):
                parent.hear(cast("Connection", line))
    finally:
        for one in started.values():
            one.end()


class Process:
    """One that is forked, as its parent sees it."""

    def __init__(
        self, session: pytest.Session, todo: list[Row], *, computes: bool, others: list[Connection]
    ) -> None:
        self.computes = computes
        self.at = ""
        """The test that it does."""
        self.line, far = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            for one in (*others, self.line):
                one.close()
            _live(session, todo, far)
        far.close()

    def end(self) -> None:
        """Waits until it has ended; it hears that nobody listens any more."""
        self.line.close()
        signal.signal(signal.SIGALRM, lambda *_: os.kill(self.pid, signal.SIGKILL))
        signal.alarm(END_SECONDS)
        os.kill(self.pid, signal.SIGINT)
        os.waitpid(self.pid, 0)
        signal.alarm(0)


class Parent:
    """Deals rows out, and reports what comes of them."""

    def __init__(
        self, session: pytest.Session, todo: list[Row], started: dict[Connection, Process]
    ) -> None:
        self._session, self._started = session, started
        self._hook = session.config.hook
        self._left = {
            kind: deque(at for at, row in enumerate(todo) if row.computes is kind)
            for kind in (True, False)
        }

    def hear(self, line: Connection) -> None:
        one = self._started[line]
        try:
            word, told = line.recv()
        except (EOFError, ConnectionError):
            self._ended(one)
            return
        if word == "over":
            self._ended(one)
        elif word == "next":
            line.send(self._next(one.computes))
        elif word == "begins":
            one.at = told[0]
            self._hook.pytest_runtest_logstart(nodeid=told[0], location=told[1])
        elif word == "report":
            config = self._session.config
            report = self._hook.pytest_report_from_serializable(config=config, data=told)
            self._hook.pytest_runtest_logreport(report=report)
        else:
            self._hook.pytest_runtest_logfinish(nodeid=told[0], location=told[1])
            one.at = ""
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _next(self, computes: bool) -> int | None:
        mine, others = self._left[computes], self._left[not computes]
        return mine.popleft() if mine else others.popleft() if others else None

    def _ended(self, one: Process) -> None:
        """It has no row any more; or it died, and what was left of its row is not done."""
        del self._started[one.line]
        one.line.close()
        _, status = os.waitpid(one.pid, 0)
        if status:
            at = one.at or "between two tests"
            code = os.waitstatus_to_exitcode(status)
            said = f"a process of the tests ended with {code}; what it had to do next is left out"
            report = pytest.TestReport(at, (at, None, at), {}, "failed", said, "call")
            self._hook.pytest_runtest_logreport(report=report)


def _live(session: pytest.Session, todo: list[Row], line: Connection) -> None:
    """What a forked process does, to its end."""
    code = 1
    try:
        random.seed()
        config = session.config
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:  # to files of its own
            capture.stop_global_capturing()
            capture.start_global_capturing()
        silent = Path(os.devnull).open("w")  # noqa: SIM115  # open until this process ends
        config.get_terminal_writer()._file = silent  # it is the parent that reports
        config.pluginmanager.register(Teller(config, line))
        try:
            for item, after in _with_next(_asked(line, todo)):
                config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        finally:
            session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()  # what tests leave to the end of their process
        line.send(("over", None))
        code = 0
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        code = 130
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _asked(line: Connection, todo: list[Row]) -> Iterator[pytest.Item]:
    """The tests of the rows that this process is given."""
    while True:
        line.send(("next", None))
        at = line.recv()
        if at is None:
            return
        yield from todo[at].items


def _with_next(
    items: Iterator[pytest.Item],
) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each with the one after it, so that what both share is kept."""
    item = next(items, None)
    while item is not None:
        after = next(items, None)
        yield item, after
        item = after


class Teller:
    """Tells the parent what becomes of tests."""

    def __init__(self, config: pytest.Config, line: Connection) -> None:
        self._config, self._line = config, line

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._line.send(("begins", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._line.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._line.send(("ended", (nodeid, location)))
