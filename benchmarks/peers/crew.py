"""The processes of one turn, which are new for each, and what they and the servers worked.

No client library's threads, caches or garbage meet another's so.
"""

import multiprocessing
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.peers import cores
from benchmarks.peers.comparison import Figures, Peer, TurnFailed
from benchmarks.peers.processes import worked

END_SECONDS: Final = 60.0
CONTEXT: Final = multiprocessing.get_context("spawn")
READY: Final = "ready"


@dataclass(frozen=True)
class Done:
    """An act's outcome, and the seconds that its process worked for it."""

    outcome: Any
    worked: float


@dataclass(frozen=True)
class Failed:
    """It came to nothing, since the client raised something."""

    why: str


class Crew:
    """Processes that have all ended afterwards, by force if they must."""

    def __init__(self, peer: Peer, core: int | None = None) -> None:
        self._pids = peer.service.pids
        self._core = core
        self._all: list[BaseProcess] = []
        self._clients = 0.0
        self._servers = worked(self._pids)

    def start(self, act: Callable[..., Any], *values: Any) -> Connection:
        """Starts one that does `act(*values, says)`; returns what it is heard by."""
        hears, says = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=run, args=(act, values, says))
        with nullcontext() if self._core is None else cores.on(self._core):
            process.start()
        says.close()  # so that its death is heard
        self._all.append(process)
        return hears

    def heard(self, source: Connection, seconds: float) -> Any:
        """What a process says next, or its outcome."""
        if not source.poll(seconds):
            raise TurnFailed("a process did not come so far in time")
        try:
            said = source.recv()
        except EOFError:
            raise TurnFailed("a process died") from None
        if isinstance(said, Failed):
            raise TurnFailed(said.why)
        if isinstance(said, Done):
            self._clients += said.worked
            return said.outcome
        return said

    def expect(self, sources: list[Connection], word: str, seconds: float) -> None:
        """Each says that word."""
        end = time.monotonic() + seconds
        for source in sources:
            said = self.heard(source, max(0.0, end - time.monotonic()))
            if said != word:
                raise TurnFailed(f"a process said {said!r} instead of {word!r}")

    def spent(self, items: int) -> Figures:
        """Microseconds of the processor an item so far, of the clients and of the servers."""
        servers = worked(self._pids) - self._servers
        each = max(items, 1)
        return {"client_us": 1e6 * self._clients / each, "servers_us": 1e6 * servers / each}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._all:
            if error is None:
                process.join(END_SECONDS)
            process.kill()
            process.join()


def run(act: Callable[..., Any], values: tuple[Any, ...], says: Connection) -> None:
    """Does one act in this process; the last that is said is what came of it."""
    begin = time.process_time()
    try:
        outcome = act(*values, says)
        says.send(Done(outcome, time.process_time() - begin))
    except Exception as error:  # whatever a client library raises is that peer's result
        says.send(Failed(f"{type(error).__name__}: {error}"))
