"""What happens round a call: one function a column, over the rows that it is given.

A column gets a `Bench` and its rows, and says of each what went wrong, or nothing. It has the
plants that try it, in their order: the first that makes the cell fail covers it. `lacks` says of a
row why the column has nothing to do with it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from table.bench import Bench
from table.faces import Row

Failures = dict[Row, str]
Run = Callable[[Bench, list[Row]], Failures]


class Column(NamedTuple):
    """One disturbance."""

    name: str
    says: str
    """What happens, in words, and what must be."""
    run: Run
    plants: tuple[str, ...]
    lacks: Callable[[Row], str] = lambda _: ""
    nodes: int = 1
    soak: bool = False
    """Whether it, or its plant, waits for so long that only `soak` has the time."""
    untried: Callable[[Row], str] = lambda _: ""
    """What a cell lacks that should be tried, and is not."""


from table.columns import arguments, loops, nodes, processes, threads  # noqa: E402

COLUMNS: Final[dict[str, Column]] = {
    column.name: column
    for part in (threads, loops, processes, nodes, arguments)
    for column in part.COLUMNS
}

GROUPS: Final = {
    part.__name__.rpartition(".")[2]: [column.name for column in part.COLUMNS]
    for part in (threads, loops, processes, nodes, arguments)
}
"""Columns that one program runs, on the same nodes."""
