"""SIGTERM and SIGINT while a worker runs: the first stops it warmly, the second ends it at once."""

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

HEEDED: Final = (signal.SIGTERM, signal.SIGINT)


def ended_by(number: int) -> BaseException:
    """What ends a program at a second signal."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


class Heeding:
    """For as long as it lasts, signals are told here; in any other thread than the main, none."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._came = False
        self._before: dict[int, Any] = {}
        self.signal = 0
        """Which one stopped it, if one did."""

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in HEEDED:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # what is ignored stays so
                    self._before[number] = before
                    signal.signal(number, self._heed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def stop(self) -> None:
        """As the first signal does."""
        self._came = True
        self._stop()

    def _heed(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._came:
            raise ended_by(number)
        self.signal = number
        self.stop()


class HeedingLoop:
    """The same for a worker of an event loop, which ends at once by being cancelled."""

    def __init__(self, stop: Callable[..., object]) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}
        self._came = False
        self.ends: BaseException | None = None
        """What is to be raised when all has ended."""

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in HEEDED:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # what is ignored stays so
                    self._before[number] = before
                    loop.add_signal_handler(number, self._heed, number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for number, before in self._before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)

    def _heed(self, number: int) -> None:
        if self._came:
            self.ends = ended_by(number)
        self._stop(hard=self._came)
        self._came = True
