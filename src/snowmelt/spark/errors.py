"""Errors as a person sees them through Spark: the sentence first, and no stack of frames.

Spark's Python workers send an error to the JVM as text, the whole traceback before the sentence,
unless `SPARK_HIDE_TRACEBACK` is set; and a worker ends once it has sent one. So when one of our own
errors is on its way out of such a worker, whose sentence is all there is to know, the traceback is
left out. Other errors are bugs, and keep theirs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from snowmelt.core.errors import SnowmeltError

_WORKER: Final = "SPARK_BUFFER_SIZE"
"""Spark sets this for the processes it starts as Python workers, and for no other."""


def in_worker() -> bool:
    """Whether this is a Python that Spark started, and not a person's program."""
    return _WORKER in os.environ


@contextmanager
def plainly() -> Iterator[None]:
    """Lets our own errors through as one sentence. Stands before each method that Spark calls."""
    try:
        yield
    except SnowmeltError:
        if in_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
