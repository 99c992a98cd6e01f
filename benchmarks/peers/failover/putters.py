"""What every queue under comparison is asked to do, and how the gap after a death is measured."""

import contextlib
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final, Protocol

from benchmarks.peers.comparison import Figures, Limits, Peer, Service

PUTTERS: Final = 4
PAUSE: Final = 0.01
"""Between the puts of each."""
AFRESH: Final = 0.05
"""Before one that failed tries again, at the next node."""
QUIET: Final = 1.0
"""So long without a gap, and a death is over."""
BACK_SECONDS: Final = 60.0

Put = Callable[[bytes], object]


class System(Service, Protocol):
    """Three nodes with one queue, a copy of each item on all of them."""

    def putter(self, at: int) -> contextlib.AbstractContextManager[Put]:
        """A connection of its own, to the node of this number first.

        A put returns when it is acknowledged, and raises when it fails or takes too long.
        """

    def leader(self) -> int:
        """The node that puts wait for when it dies."""

    def kill(self, node: int) -> None:
        """By SIGKILL."""

    def back(self, node: int) -> None:
        """Starts it again, and returns when all three take part as before."""


def kill_the_leader(peer: Peer, queue: str, limits: Limits) -> Figures:
    """Kills it; brings it back before the end."""
    del queue, limits
    system: System = peer.service  # type: ignore[assignment] # of these peers alone
    putters = Putters(system)
    try:
        _wait(lambda: putters.quiet(QUIET))
        victim = system.leader()
        at = time.monotonic()
        system.kill(victim)
        time.sleep(QUIET)
        _wait(lambda: putters.quiet(QUIET))
        gap = putters.gap(at)
        system.back(victim)
    finally:
        putters.stop()
    return {"gap_s": gap, "longest_put_s": putters.longest}


class Putters:
    """Some threads that put one item at a time, and the moment of each acknowledgement."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._end = threading.Event()
        self._moments: list[float] = []
        self.longest = 0.0
        """The longest put that was acknowledged, in seconds."""
        self._threads = [
            threading.Thread(target=self._run, args=(at,), daemon=True) for at in range(PUTTERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(70)

    def gap(self, since: float) -> float:
        """The longest time since then in which nobody's put came through, this moment included."""
        moments = [since, *(one for one in list(self._moments) if one > since), time.monotonic()]
        return max(after - before for before, after in pairwise(moments))

    def quiet(self, seconds: float) -> bool:
        """Whether puts came through all the last time."""
        since = time.monotonic() - seconds
        return self.gap(since) < seconds / 2

    def _run(self, at: int) -> None:
        turn = at
        while not self._end.is_set():
            with contextlib.suppress(Exception), self._system.putter(turn % 3) as put:
                while not self._end.is_set():
                    begun = time.monotonic()
                    put(b"x" * 100)
                    self._moments.append(time.monotonic())
                    self.longest = max(self.longest, self._moments[-1] - begun)
                    time.sleep(PAUSE)
            turn += 1
            self._end.wait(AFRESH)


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + BACK_SECONDS
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"puts did not go on within {BACK_SECONDS:g} s")
        time.sleep(0.05)
