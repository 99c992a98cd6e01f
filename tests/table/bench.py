"""The bench that cells are tried on: nodes, the plant if there is one, and the watch."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import SnowmeltError
from table.account import Wrong
from table.faces import Row
from table.own import Own, Place
from table.plants import Sense, planted
from table.recipes import Act, drive

SLOW = float(os.environ.get("TABLE_SLOW", "0"))
"""Cells that take longer are named, for whoever wants to know where the time goes."""

MARGIN = 2.0
"""Seconds that a call may be late by, on a busy machine."""
STILL = 25.0
"""Seconds after which a cell stands still."""


class StoodStill(BaseException):
    """A cell did not end."""


class Bench:
    """Nodes, a place on them, and a plant."""

    def __init__(self, folder: Path, nodes: int = 1, words: Sequence[str] = ()) -> None:
        self.folder = folder
        self.cluster = LocalCluster(nodes, folder / "nodes", 0.5, options=words)
        self.place = Place("", str(folder / "folders"))
        self.plants: dict[Row, str] = {}
        """Which rows have a plant now, and which."""
        self.sense = Sense()
        self.long = False
        """Whether all of it is tried, or a sample (how many lines are interrupted, say)."""
        self.kills = 0
        self._number = 0

    def __enter__(self) -> Self:
        Path(self.place.folder).mkdir(parents=True)  # backups are written there, too
        self.cluster.start()
        self.place.url = self.cluster.url
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for node in self.cluster.nodes:
            if node.running:
                node.kill()

    @property
    def node(self) -> Any:
        """The one that things happen to."""
        return self.cluster.nodes[0]

    def name(self, row: Row) -> str:
        """Of a cell's queue; no two have the same."""
        self._number += 1
        word = row.call.replace(".", "-").lower()
        return f"{row.kind}-{word}-{self._number}"

    def own(self, row: Row, face: Any = snowmelt, **given: Any) -> Own:
        """What a cell holds."""
        place = given.pop("place", self.place)
        return Own(place, row, given.pop("name", self.name(row)), face, **given)

    def call(self, act: Act) -> Any:
        """The call, with the plant round it if its row has one."""
        return planted(act, self.plants, self.sense)

    @contextmanager
    def hit(self) -> Iterator[None]:
        """The disturbance is there, as a plant knows."""
        self.sense.hit = True
        try:
            yield
        finally:
            self.sense.hit = False

    def cells(self, rows: list[Row], cell: Callable[[Own], None], face: Any = snowmelt) -> Any:
        """One cell after the other, each with its account at its end."""
        owns = [self.own(row, face) for row in rows]
        tried = [failure(lambda own=own: (cell(own), again(own))) for own in owns]
        return self.checked(owns, tried)

    def cells_apart(self, rows: list[Row], cell: Callable[[Own], None]) -> dict[Row, str]:
        """Some at a time, and only the next call is judged: what was put may be anywhere."""

        def whole(row: Row) -> str:
            own, after = self.own(row), self.own(row)
            said = failure(lambda: in_thread(lambda: (cell(own), again(after))))
            ended(own)
            ended(after)
            return said

        with ThreadPoolExecutor(8) as workers:
            return dict(zip(rows, workers.map(whole, rows), strict=True))

    def checked(self, owns: list[Own], tried: list[str]) -> dict[Row, str]:
        """The accounts of all, at last: so that leases are waited for together."""
        found = [said or failure(own.check) for own, said in zip(owns, tried, strict=True)]
        for own in owns:
            ended(own)
        return {own.row: said for own, said in zip(owns, found, strict=True)}

    def checked_async(self, owns: list[Own], tried: list[str]) -> dict[Row, str]:
        """The same of cells whose cluster has gone with its loop."""
        return {own.row: said or failure(own.check) for own, said in zip(owns, tried, strict=True)}


def ended(own: Own) -> None:
    """What it held goes, however it ends."""
    with suppress(SnowmeltError), watched(STILL):
        own.close()


def again(own: Own) -> None:
    """The next call works, as if nothing had been."""
    try:
        drive(own)
    except SnowmeltError as error:
        raise Wrong(f"the next call: {error!r}") from error


def failure(work: Callable[[], Any], *, seconds: float = STILL) -> str:
    """What is wrong with it; nothing if nothing is."""
    begin = time.monotonic()
    try:
        with watched(seconds):
            work()
    except Wrong as wrong:
        return str(wrong)
    except StoodStill:
        return f"it stood still for {seconds:g} s"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        if SLOW and time.monotonic() - begin > SLOW:
            print(f"   {time.monotonic() - begin:.1f} s: {work.__defaults__}", file=sys.stderr)
    return ""


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """The main thread is interrupted when it takes longer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def still(*_: object) -> None:
        raise StoodStill

    before = signal.signal(signal.SIGALRM, still)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_thread(work: Callable[[], Any], seconds: float = STILL) -> None:
    """Does it in a thread that ends; what it raised is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise StoodStill
    if raised:
        raise raised[0]


def in_time(seconds: float, begin: float) -> None:
    """It has ended as late as is allowed at most."""
    took = time.monotonic() - begin
    if took > seconds + MARGIN:
        raise Wrong(f"it took {took:.1f} s, of {seconds:g}")
