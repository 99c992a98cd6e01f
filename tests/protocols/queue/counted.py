"""What something costs, in steps and calls, which no other program's load can change."""

import gc
import sys
from types import FrameType
from typing import Any


class Steps:
    """Counts the steps of the interpreter; a collection of garbage has callbacks, and waits."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Steps":
        gc.disable()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.enable()

    def _called(self, frame: FrameType, event: str, _: object) -> object:
        del frame, event
        self.count += 1
        return self._called


class Counted:
    """Counts how often functions are called."""

    def __init__(self, *functions: Any) -> None:
        self.count = 0
        self._codes = {function.__code__ for function in functions}

    def __enter__(self) -> "Counted":
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        self.count += event == "call" and frame.f_code in self._codes
