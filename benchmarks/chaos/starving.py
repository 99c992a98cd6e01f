"""How long processes stood in line for a processor, which no promise of ours can shorten.

The system counts for each thread how long it could have run and did not (Linux' `schedstat`). That
is read now and then while a storm blows, and written down; where the system does not tell, nothing
is. A judge takes what the worst of all processes waited in some time for what the machine itself
may have added to it: what is late by no more than that is not judged, and told as such. Who was
stopped does not stand in line, and a lock, a search or a link that hangs does not either.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from benchmarks.chaos.journals import Journal, now, read
from benchmarks.chaos.members import Members

from snowmelt.cli.local import LocalCluster

STARVED: Final = "starved.jsonl"
EVERY: Final = 0.2
LEAST: Final = 5_000_000
"""Shorter waits in one look are not written down."""

Processes = Callable[[], Iterable[tuple[str, int]]]
"""Names and numbers of those that run."""


class Wait(msgspec.Struct, frozen=True, array_like=True):
    """In this time a thread of this process stood in line for so many nanoseconds."""

    start: int
    stop: int
    who: str
    waited: int

    def within(self, start: int, stop: int) -> float:
        """Of that, in this time."""
        common = min(self.stop, stop) - max(self.start, start)
        return self.waited * max(0, common) / max(1, self.stop - self.start)


class Starving(msgspec.Struct, frozen=True):
    """All that was written down."""

    waits: tuple[Wait, ...] = ()

    def seconds(self, start: int, stop: int) -> float:
        """How long the worst of all processes stood in line in this time."""
        sums: dict[str, float] = {}
        for wait in self.waits:
            sums[wait.who] = sums.get(wait.who, 0.0) + wait.within(start, stop)
        return round(max(sums.values(), default=0.0) / 1e9, 3)


def read_starving(folder: Path) -> Starving:
    """Of a run; nothing where the system does not tell."""
    return Starving(tuple(read(folder / STARVED, Wait)))


class Watch:
    """Looks at processes while a `with` lasts, and writes down who stood in line."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self._path = folder / STARVED
        self._processes = processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look_on(self) -> None:
        before: dict[str, int] = {}
        at = now()
        with Journal(self._path) as journal:
            while not self._over.wait(EVERY):
                last, at = at, now()
                seen: dict[str, int] = {}
                for name, pid in self._processes():
                    mine = waited(pid)
                    worst = max((mine[one] - before.get(one, mine[one]) for one in mine), default=0)
                    if worst >= LEAST:
                        journal.add(Wait(last, at, name, min(worst, at - last)))
                    seen |= mine
                before = seen


def watch(folder: Path, crowd: Members[Any], cluster: LocalCluster) -> Watch:
    """Of all processes of a run, whichever there are."""

    def processes() -> Iterator[tuple[str, int]]:
        yield from crowd.processes()
        for node in cluster.nodes:
            if node.running:
                yield node.name, node.pid

    return Watch(folder, processes)


def waited(pid: int) -> dict[str, int]:
    """For how many nanoseconds each thread of a process has stood in line since it began."""
    found: dict[str, int] = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[path.parent.name] = int(path.read_text().split()[1])
        except (OSError, IndexError):  # it has ended meanwhile, or the system does not count
            continue
    return found
