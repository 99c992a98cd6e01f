"""A signal at each line in turn: what a program may meet at any instant, met without chance."""

import signal
import sys
from collections.abc import Collection
from types import FrameType, ModuleType
from typing import Any, Self


class Interrupted:
    """Sends this process a signal at one line of those that these modules' functions run."""

    def __init__(self, line: int, modules: Collection[ModuleType], without: str = "") -> None:
        self.left = line
        """Above 0 in the end when there were not so many lines."""
        self._files = {module.__file__ for module in modules}
        self._without = without

    def __enter__(self) -> Self:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, *_: Any) -> Any:
        if frame.f_code.co_name == self._without:
            return None
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, _: FrameType, event: str, __: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self._line
