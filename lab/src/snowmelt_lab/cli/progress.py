"""How far long work has come."""

from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Thing = TypeVar("Thing")


def shown(things: Iterable[Thing], total: int | None) -> Iterable[Thing]:
    """Progress on a terminal, and silence in a pipe.

    >>> list(shown("ab", 2))
    ['a', 'b']
    """
    console = Console(stderr=True)
    hidden = not console.is_terminal
    return track(things, "", total, console=console, transient=True, disable=hidden)
