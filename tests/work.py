"""How much a call does, counted: a machine that is busy with others does no more."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(act: Callable[[], object]) -> int:
    """How many lines of Python it runs; each turn of a loop counts."""
    count = 0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
