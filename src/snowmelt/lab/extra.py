"""What only `pip install snowmelt[lab]` brings, and what to say when it is not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from snowmelt.core.errors import CallerError

EXTRA: Final = frozenset({"numba", "numpy", "matplotlib"})


@contextmanager
def lab_extra(wish: str) -> Iterator[None]:
    """Round imports of the extra's modules: a missing one becomes a sentence with the way out.

    >>> with lab_extra("--figure"):
    ...     raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    Traceback (most recent call last):
    snowmelt.core.errors.CallerError: --figure needs matplotlib: pip install snowmelt[lab]
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA:
            raise  # a module of ours: a bug
        raise CallerError(f"{wish} needs {missing}: pip install snowmelt[lab]") from error
