"""What is measured: one size of item, put and taken in calls of one size."""

from dataclasses import dataclass
from typing import Final, Literal

Way = Literal["one", "many", "tasks"]
"""A call carries one item, or many; or one, of many tasks of an event loop."""

BATCHES: Final = {100: 1000, 1_000: 1000, 100_000: 10, 1_000_000: 4}
"""Items a call, for each size of item: about a megabyte or less, or a handful."""
LANES: Final = 16
"""Threads of the client's process, each with a connection of its own."""
TASKS: Final = 64
"""Of the client's event loop, each with calls of its own."""
TASKS_SIZE_MAX: Final = 1_000
"""Larger ones say how fast bytes are copied, by any peer."""
BACKLOGS: Final = (10_000, 1_000_000)
ITEMS_MAX: Final = 100_000
BYTES_MAX: Final = 256_000_000
QUICKER: Final = 10


@dataclass(frozen=True)
class Cell:
    """A size in bytes, how many such items one call carries, and how many calls at once."""

    size: int
    batch: int
    lanes: int = 1
    tasks: bool = False
    """Whether tasks of one event loop call, and not threads."""
    backlog: int = 0
    """Items that wait all the time."""

    @property
    def way(self) -> Way:
        """Of using a peer."""
        return "tasks" if self.tasks else "one" if self.batch == 1 else "many"

    @property
    def name(self) -> str:
        if self.backlog:
            return f"behind-{self.backlog}-{self.batch}"
        lanes = "" if self.lanes == 1 else f"-{self.lanes}"
        return f"{self.size}-{self.batch}{lanes}{'-tasks' if self.tasks else ''}"

    def items(self, *, quick: bool) -> int:
        """How many a turn puts at most."""
        return min(ITEMS_MAX, BYTES_MAX // self.size) // (QUICKER if quick else 1)

    def __str__(self) -> str:
        calls = "one at a time" if self.batch == 1 else f"{self.batch:,} a call"
        kind = "tasks" if self.tasks else "calls"
        lanes = "" if self.lanes == 1 else f", {self.lanes} {kind} at once"
        behind = f", {self.backlog:,} wait" if self.backlog else ""
        return f"{spelled(self.size)}, {calls}{lanes}{behind}"


def spelled(size: int) -> str:
    """A size as people say it.

    >>> spelled(100), spelled(1000), spelled(1_000_000)
    ('100 B', '1 kB', '1 MB')
    """
    for unit, name in ((1_000_000, "MB"), (1000, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def cells() -> list[Cell]:
    """One at a time, then in batches, then both with several calls at once; then tasks."""
    singles = [Cell(size, 1) for size in BATCHES]
    batches = [Cell(size, batch) for size, batch in BATCHES.items()]
    together = [Cell(one.size, one.batch, LANES) for one in (*singles, *batches)]
    tasks = [Cell(size, 1, TASKS, tasks=True) for size in BATCHES if size <= TASKS_SIZE_MAX]
    return singles + batches + together + tasks
