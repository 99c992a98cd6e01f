"""Nodes and what lies between: silent, killed, restarted, a slow link, a full disk.

All rows meet first: each has prepared its call and makes it when the node is as it is to be. Then
the node is as before, every recipe goes on, and each makes its call once more.
"""

import gc
import inspect
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from benchmarks.slow_link import SlowLink

from snowmelt.core.errors import SnowmeltError
from table.account import Wrong, expect
from table.bench import MARGIN, STILL, Bench, again, failure, in_thread, in_time
from table.columns import Column, Failures
from table.columns.arguments import with_argument
from table.faces import Row, arguments
from table.own import Own
from table.recipes import RECIPES, Act, drive

SILENT = 1.5
"""Seconds that a node is silent for."""
BEGUN = 8.0
"""Seconds after which all calls have begun."""


class Meeting:
    """Where threads wait for each other: until the disturbance is there, and until it is over."""

    def __init__(self) -> None:
        self.go, self.over = threading.Event(), threading.Event()
        self._here: set[Row] = set()
        self._done: set[Row] = set()
        self._changed = threading.Condition()

    def arrive(self, row: Row) -> None:
        """The call is ready to be made."""
        self._tell(self._here, row)
        self.go.wait()

    def done(self, row: Row) -> None:
        """It has ended, or will never be made."""
        self._tell(self._here, row)
        self._tell(self._done, row)

    def _tell(self, rows: set[Row], row: Row) -> None:
        with self._changed:
            rows.add(row)
            self._changed.notify_all()

    def wait(self, count: int, seconds: float, *, done: bool = False) -> None:
        """Until so many are here, or done; or for so long."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._done if done else self._here) >= count, seconds
            )


def together(
    bench: Bench,
    owns: list[Own],
    disturb: Callable[[], AbstractContextManager[Any]],
    seconds: float | None,
    most: float,
) -> Failures:
    """All calls at once, within the disturbance; those that take a time-out are given this one."""
    meeting, wrong = Meeting(), dict[Row, str]()

    def cell(own: Own) -> None:
        def around(act: Act) -> Any:
            timed = seconds is not None and own.row.kind != "worker" and takes_timeout(act)
            meeting.arrive(own.row)
            begin = time.monotonic()
            try:
                given = with_argument(act, "timeout", seconds) if timed else act
                return bench.call(given)
            finally:
                took, limit = time.monotonic() - begin, seconds if timed else most
                if took > limit + MARGIN:
                    wrong[own.row] = f"it took {took:.1f} s of {limit:g}"
                meeting.done(own.row)
                meeting.over.wait()

        try:
            drive(own)  # all is open, and known
            drive(own, around)
        except SnowmeltError:
            pass
        except Wrong as error:
            wrong.setdefault(own.row, str(error))
        except BaseException as error:
            wrong.setdefault(own.row, f"{type(error).__name__}: {error}"[:300])
        finally:
            meeting.done(own.row)

    threads = [threading.Thread(target=cell, args=(own,), daemon=True) for own in owns]
    for thread in threads:
        thread.start()
    meeting.wait(len(owns), BEGUN)
    with disturb(), bench.hit():
        meeting.go.set()
        meeting.wait(len(owns), most + MARGIN + (5 if bench.plants else 1), done=True)
    meeting.over.set()
    end = time.monotonic() + STILL
    for own, thread in zip(owns, threads, strict=True):
        thread.join(max(0.1, end - time.monotonic()))
        if thread.is_alive():
            wrong.setdefault(own.row, "it stood still")
    gc.collect()  # what an exception has seen is dropped when it is
    return settled(bench, owns, wrong)


def settled(bench: Bench, owns: list[Own], wrong: Failures) -> Failures:
    """Each once more, at once, when all is as before; then the accounts."""

    def once_more(own: Own) -> None:
        end = time.monotonic() + 10
        while said := failure(lambda: in_thread(lambda: again(own))):
            if time.monotonic() > end or "the next call" not in said:
                wrong[own.row] = said
                return
            time.sleep(0.2)

    sound = [own for own in owns if own.row not in wrong]
    threads = [threading.Thread(target=once_more, args=(own,), daemon=True) for own in sound]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STILL)
    return bench.checked(owns, [wrong.get(own.row, "") for own in owns])


def takes_timeout(act: Act) -> bool:
    """Whether the call takes a time-out that the recipe has not given."""
    parameters = inspect.signature(act.call).parameters
    return ("timeout" in parameters and "timeout" not in act.named) or "options" in parameters


# --- the node -------------------------------------------------------------------------------------


def silent(bench: Bench, rows: list[Row]) -> Failures:
    """The only node is stopped for a while; calls have 0.3 s, or as long as it is silent."""

    @contextmanager
    def disturb() -> Iterator[None]:
        os.kill(bench.node.pid, signal.SIGSTOP)
        timer = threading.Timer(SILENT, os.kill, (bench.node.pid, signal.SIGCONT))
        timer.start()
        try:
            yield
        finally:
            timer.join()

    return together(bench, [bench.own(row) for row in rows], disturb, 0.3, SILENT)


def restarted(bench: Bench, rows: list[Row]) -> Failures:
    """The only node is killed while calls are under way, and started again on its disk."""

    @contextmanager
    def disturb() -> Iterator[None]:
        bench.node.kill()
        timer = threading.Timer(0.3, bench.node.start)
        timer.start()
        try:
            yield
        finally:
            timer.join()
            bench.cluster.wait_for([bench.node.name], 20)

    return together(bench, [bench.own(row) for row in rows], disturb, 6, 12)


def killed(bench: Bench, rows: list[Row]) -> Failures:
    """One of three nodes is killed, and stays away for the calls: the others serve."""
    number = 1 + bench.kills % 2
    bench.kills += 1
    node = bench.cluster.nodes[number]

    @contextmanager
    def disturb() -> Iterator[None]:
        node.kill()
        try:
            yield
        finally:
            node.start()
            bench.cluster.wait_for([one.name for one in bench.cluster.nodes], 30)

    return together(bench, [bench.own(row) for row in rows], disturb, 8, 14)


def full_disk(bench: Bench, rows: list[Row]) -> Failures:
    """Files of the node can't grow any more; then they can."""
    files = [file for file in bench.node.folder.rglob("*") if file.is_file()]
    largest = max(file.stat().st_size for file in files)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    @contextmanager
    def disturb() -> Iterator[None]:
        limit = (largest, resource.RLIM_INFINITY)
        resource.prlimit(bench.node.pid, resource.RLIMIT_FSIZE, limit)
        filler = bench.place.judge.fifo("filler")
        with suppress(SnowmeltError):
            for _ in range(200):
                filler.put(os.urandom(1 << 20), timeout=1)
        try:
            yield
        finally:
            resource.prlimit(bench.node.pid, resource.RLIMIT_FSIZE, unlimited)
            with suppress(SnowmeltError):
                filler.purge()

    owns = [bench.own(row) for row in rows]
    for own in owns:
        own.pad = 20_000
    return together(bench, owns, disturb, 2, 12)


def no_time(bench: Bench, rows: list[Row]) -> Failures:
    """`timeout=0`, of all rows at once: it is done at once, or says that it is not."""
    return together(bench, [bench.own(row) for row in rows], nullcontext, 0, 0)


def no_timeout(row: Row) -> str:
    return "" if "timeout" in arguments(row) else "it takes no time-out"


# --- the link -------------------------------------------------------------------------------------

SLOW = 400_000.0
LARGE = 200_000
"""Half a second: three of them come within their lease."""
SMALL = 100_000
"""Bytes that a call without bodies is answered with, at most."""


def slow_link(bench: Bench, rows: list[Row]) -> Failures:
    """Bodies that take seconds: each crosses once. All clients are told of the link as the node's
    address, so one call is made at a time."""
    link = SlowLink(0)
    folder = Path(tempfile.mkdtemp(dir=bench.folder))
    with link, Bench(folder, words=("--advertise", f"127.0.0.1:{link.port}")) as slow:
        link.leads_to = slow.node.port
        slow.place.url = f"snowmelt://127.0.0.1:{link.port}"
        slow.plants, slow.long = bench.plants, bench.long

        def cell(own: Own) -> None:
            drive(own)  # all is open, and known
            before = len(own.account.all("tried"))

            def around(act: Act) -> Any:
                bodies = len(own.account.all("tried")) - before
                begin, link.up, link.down, link.rate = time.monotonic(), 0, 0, SLOW
                try:
                    with slow.hit():
                        return slow.call(act)
                finally:
                    link.rate, crossed = 0, max(link.up, link.down)
                    in_time(bodies * LARGE / SLOW, begin)
                    most = SMALL + 1.2 * bodies * LARGE
                    expect(crossed < most, f"{{}} bytes crossed for {bodies} bodies", crossed)

            own.pad = LARGE
            with suppress(SnowmeltError):
                drive(own, around)
            own.pad = 0

        return slow.cells(rows, cell)


def asks_nobody(row: Row) -> str:
    if row.kind == "folder":
        return "there is no node"
    return "it asks nobody" if "local" in RECIPES[row].words else ""


def works_on(row: Row) -> str:
    if row.call == "Worker.run":
        return "it works until it is stopped, however long a node is silent"
    return asks_nobody(row)


COLUMNS = [
    Column("no time left", "The time-out is 0: it is done at once, or says that it is not.",
           no_time, ("tarries",), no_timeout, soak=True),
    Column("node silent", "The only node is stopped for 1.5 s, and goes on: each call ends in its "
           "time, and the account is right.", silent, ("tarries",), works_on),
    Column("slow link", "Bodies of 200 kB over 400 kB/s: each crosses once.", slow_link,
           ("twice", "forgets", "crashes"), asks_nobody, soak=True),
    Column("full disk", "The node's files can't grow: what is told as put is there.", full_disk,
           ("forgets", "crashes"), asks_nobody),
    Column("node restarted", "The only node is killed and started again on its disk: an answer or "
           "an error in time, and the account is right.", restarted, ("forgets", "crashes"),
           asks_nobody, soak=True),
    Column("node killed", "One of three nodes is killed: the others serve, and nothing is lost of "
           "queues with three copies, the default.", killed, ("forgets", "crashes"), asks_nobody,
           nodes=3, soak=True),
]  # fmt: skip
