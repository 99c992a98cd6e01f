"""How tables look on a terminal."""

from collections.abc import Container, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from snowmelt.core.shown import printable


class PlainTable(Table):
    """What stands in it is text, whoever wrote it: no mark of rich's, and nothing to be obeyed."""

    def add_row(self, *cells: RenderableType | None, **how: Any) -> None:
        """One more; what is styled comes as `styled` makes it."""
        super().add_row(*[styled(one) if isinstance(one, str) else one for one in cells], **how)


def styled(text: str, style: str = "") -> Text:
    r"""Text as it is.

    >>> styled("[red]\x1b[2J").plain
    '[red]\\x1b[2J'
    """
    return Text(printable(text), style=style)


def listing(heads: Sequence[str], words: Container[str] = (), title: str = "") -> Table:
    """A table with no lines yet: numbers to the right, and to the left what is in words."""
    above = styled(title, "table.title") if title else None
    made = PlainTable(
        title=above, title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for head in heads:
        made.add_column(head, justify="left" if head in words else "right")
    return made


def wide_console() -> Console:
    """A table in a pipe is as wide as it is."""
    console = Console()
    return console if console.is_terminal else Console(width=250)
