"""What Spark says goes into a file: a stack of Java's is for people who look for it.

Spark's Java is a process of its own, which writes to the terminal it was started from. So it is
started while this program's own standard error is that file; its workers inherit that.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from snowmelt.store.folder import private

_STDERR: Final = 2
_ECHO: Final = "DataFrameQueryContextLogger"
"""By this logger pyspark writes each error to the terminal that it raises anyway."""


@contextmanager
def errors_into(log: Path) -> Iterator[None]:
    """Standard error goes into a file meanwhile, and for ever that of processes begun meanwhile."""
    logging.getLogger(_ECHO).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    sys.stderr.flush()
    log.parent.mkdir(parents=True, exist_ok=True)
    before = os.dup(_STDERR)
    with private(log) as file:
        os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, _STDERR)
        os.close(before)
