"""What is measured: one size of item, put and taken in calls of one size."""

from dataclasses import dataclass

from benchmarks.fifo.peer import Way

BATCHES = {100: 1000, 1_000: 1000, 100_000: 10, 1_000_000: 4}
"""Items a call, for each size of item: about a megabyte or less, or a handful."""

LANES = 16
"""Threads of the client's process, each with a connection of its own."""

TASKS = 64
"""Of the client's event loop, each with calls of its own."""

TASKS_SIZE_MAX = 1_000
"""Larger ones tell how fast bytes are copied, whoever asks."""


@dataclass(frozen=True)
class Cell:
    """A size in bytes, how many such items one call carries, and how many calls at once."""

    size: int
    batch: int
    lanes: int = 1
    tasks: bool = False
    """Whether those who call are tasks of one event loop, and not threads."""

    @property
    def way(self) -> Way:
        """Of using a peer."""
        return "tasks" if self.tasks else "one" if self.batch == 1 else "many"

    @property
    def queue(self) -> str:
        return f"cell-{self.size}-{self.batch}-{self.lanes}{'-tasks' if self.tasks else ''}"

    def __str__(self) -> str:
        calls = "one at a time" if self.batch == 1 else f"{self.batch:,} a call"
        who = "tasks" if self.tasks else "calls"
        lanes = "" if self.lanes == 1 else f", {self.lanes} {who} at once"
        return f"{spelled(self.size)}, {calls}{lanes}"


@dataclass(frozen=True)
class Bounds:
    """A turn puts until one of these is reached, and then takes all."""

    seconds: float
    items: int
    bytes: int


def spelled(size: int) -> str:
    """A size as people say it.

    >>> spelled(100), spelled(1000), spelled(1_000_000)
    ('100 B', '1 kB', '1 MB')
    """
    for unit, name in ((1_000_000, "MB"), (1000, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def plan(sizes: list[int]) -> list[Cell]:
    """One at a time, then in batches, then both with several calls at once; tasks come last."""
    singles = [Cell(size, 1) for size in sizes]
    batches = [Cell(size, BATCHES.get(size, 100)) for size in sizes]
    together = [Cell(one.size, one.batch, LANES) for one in (*singles, *batches)]
    tasks = [Cell(size, 1, TASKS, tasks=True) for size in sizes if size <= TASKS_SIZE_MAX]
    return singles + batches + together + tasks
