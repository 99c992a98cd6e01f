"""What a Python of Spark's has loaded stays there: it is not looked through after each task.

Spark's Python looks for garbage after each task that it has run, in all that it holds. Nearly all
of that is modules, Spark's, Arrow's and ours, which are never garbage: 40 to 60 ms of a processor a
look, where reading 65,536 rows takes 15. So what is there after a task that loaded something is set
aside for good, and the looks that follow are through what came since (`gc.freeze`). In a person's
own program, whose garbage is its own, nothing is done.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from snowmelt.spark.errors import in_worker

_loaded = 0
"""How many modules there were when something was set aside last."""


@contextmanager
def settling() -> Iterator[None]:
    """Stands before what Spark calls in a process that it uses again and again."""
    global _loaded  # noqa: PLW0603  # as the garbage collector itself, one a process
    try:
        yield
    finally:
        if in_worker() and len(sys.modules) > _loaded:
            _loaded = len(sys.modules)
            gc.collect()  # what is garbage by now would stay as well
            gc.freeze()
