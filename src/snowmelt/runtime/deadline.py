"""What happens to a connection unless something comes first."""

import asyncio
from collections.abc import Callable


class Deadline:
    """One at a time; whatever is set replaces the one before."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, then: Callable[[], object]) -> None:
        """Does this when so long has passed."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def set_without(
        self,
        seconds: float,
        read: Callable[[], int],
        least: Callable[[], int],
        then: Callable[[], object],
    ) -> None:
        """Does this once less than `least` more has been read within so long.

        Not when this process has stood still for as long: then it was not read here.
        """
        before, due = read(), asyncio.get_running_loop().time() + seconds

        def look() -> None:
            awake = asyncio.get_running_loop().time() < due + seconds
            if awake and read() - before < least():
                then()
            else:
                self.set_without(seconds, read, least, then)

        self.set(seconds, look)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
