"""How tables look on a terminal."""

from collections.abc import Container, Sequence

from rich.console import Console
from rich.table import Table


def listing(heads: Sequence[str], words: Container[str] = (), title: str | None = None) -> Table:
    """A table with no lines yet: numbers to the right, and to the left what is in words."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, justify="left" if head in words else "right")
    return made


def wide_console() -> Console:
    """A table in a pipe is as wide as it is."""
    console = Console()
    return console if console.is_terminal else Console(width=250)
