"""Compiles functions, and keeps what was compiled for the next process."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from numba import njit

HERE: Final = Path(__file__).parent
OPTIONS: Final[dict[str, Any]] = {"cache": True, "error_model": "numpy", "_nrt": False}
"""Without `nrt` numba does not count who holds which array, which costs more than twice what the
work does; so no array may be made."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function in machine code. It takes numbers, arrays, and tuples of them, and makes none.

    Sums are rounded as they are written, so a seed gives the same life everywhere.
    """
    return cast("Function", njit(**OPTIONS)(function))


def forget_stale(folder: Path) -> None:
    """Removes what was compiled before any of the folder's sources changed.

    numba looks at the file of a function only, and not at those of the functions that it calls,
    which are part of its code.
    """
    newest = max(source.stat().st_mtime for source in folder.glob("*.py"))
    for index in folder.glob("__pycache__/*.nbi"):
        with suppress(FileNotFoundError):  # another process does the same
            if index.stat().st_mtime < newest:
                index.unlink()


forget_stale(HERE)
