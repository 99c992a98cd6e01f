"""What is measured: one size of item, put and taken in calls of one size."""

from dataclasses import dataclass

BATCHES = {100: 1000, 1_000: 1000, 100_000: 10, 1_000_000: 4}
"""Items a call, for each size of item: about a megabyte or less, or a handful."""

LANES = 16
"""Threads of the client's process, each with a connection of its own."""


@dataclass(frozen=True)
class Cell:
    """A size in bytes, how many such items one call carries, and how many calls at once."""

    size: int
    batch: int
    lanes: int = 1

    @property
    def queue(self) -> str:
        return f"cell-{self.size}-{self.batch}-{self.lanes}"

    def __str__(self) -> str:
        calls = "one at a time" if self.batch == 1 else f"{self.batch:,} a call"
        lanes = "" if self.lanes == 1 else f", {self.lanes} calls at once"
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
    """All sizes one at a time, then all in batches, then those with several calls at once."""
    singles = [Cell(size, 1) for size in sizes]
    batches = [Cell(size, BATCHES.get(size, 100)) for size in sizes]
    return singles + batches + [Cell(one.size, one.batch, LANES) for one in (*singles, *batches)]
