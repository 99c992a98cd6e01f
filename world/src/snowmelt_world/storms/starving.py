"""How long processes stood in line for a processor, which no promise of ours can shorten.

The system counts for each thread how long it could have run and did not (Linux' `schedstat`). That
is read now and then while a storm blows, and written down; where the system does not tell, nothing
is. A judge takes what the worst of all processes waited in some time for what the machine itself
may have added to it: what is late by no more than that is not judged, and told as such. Who was
stopped does not stand in line, and a lock, a search or a link that hangs does not either.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.storms.journals import Journal, now, read
from snowmelt_world.storms.scene import Scene

STARVED: Final = "starved.jsonl"
EVERY: Final = 0.2
LEAST: Final = 5_000_000
"""Shorter waits in one look are not written down."""

Processes = Callable[[], Iterable[tuple[str, int]]]
"""Names and numbers of those that run."""


class Starved(msgspec.Struct, frozen=True, array_like=True):
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

    waits: tuple[Starved, ...] = ()

    def seconds(self, start: int, stop: int) -> float:
        """How long the worst of all processes stood in line in this time."""
        sums: dict[str, float] = {}
        for wait in self.waits:
            sums[wait.who] = sums.get(wait.who, 0.0) + wait.within(start, stop)
        return round(max(sums.values(), default=0.0) / 1e9, 3)


def read_starving(folder: Path) -> Starving:
    """Of a run; nothing where the system does not tell."""
    return Starving(tuple(read(folder / STARVED, Starved)))


class StarvingWatch:
    """Looks at processes, and writes down who stood in line since the last look."""

    def __init__(self, journal: Journal, processes: Processes) -> None:
        self._journal = journal
        self._processes = processes
        self._before: dict[str, int] = {}
        self._at = now()

    def look(self) -> None:
        """A thread that was not there at the last look has waited for nothing."""
        before, last = self._before, self._at
        self._before, self._at = {}, now()
        for name, pid in self._processes():
            mine = waited(pid)
            worst = max((mine[one] - before.get(one, mine[one]) for one in mine), default=0)
            if worst >= LEAST:
                self._journal.add(Starved(last, self._at, name, min(worst, self._at - last)))
            self._before |= mine


@contextmanager
def watch(folder: Path, scene: Scene) -> Iterator[None]:
    """All processes of a run, whichever there are, while the `with` lasts."""
    over = threading.Event()
    with Journal(folder / STARVED) as journal:
        watching = StarvingWatch(journal, scene.processes)

        def run() -> None:
            while not over.wait(EVERY):
                watching.look()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def waited(pid: int) -> dict[str, int]:
    """For how many nanoseconds each thread of a process has stood in line since it began."""
    found: dict[str, int] = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[path.parent.name] = int(path.read_text().split()[1])
        except (OSError, IndexError):  # it has ended meanwhile, or the system does not count
            continue
    return found
