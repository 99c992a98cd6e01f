"""Clients started together and timed at gates; the first that fails ends them all."""

import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from signal import SIG_IGN, SIGINT, signal

import msgspec

from snowmelt.core.errors import BadOption, OutcomeUnknown, SnowmeltError
from snowmelt_lab.scale.client import Job, Queue, get_all, opened, put_all

CLIENTS_MAX = 1000
START_SECONDS = 120.0  # sixty-four interpreters on two cores
PHASES: tuple[Callable[[Queue, Job], None], ...] = (put_all, get_all)


class Times(msgspec.Struct, frozen=True):
    """Seconds from one gate to the next, and the figure the paper draws."""

    put_seconds: float
    get_seconds: float
    seconds_per_100: float

    @property
    def total_seconds(self) -> float:
        """Puts and gets.

        >>> Times(1.5, 0.5, 0.2).total_seconds
        2.0
        """
        return self.put_seconds + self.get_seconds


def timed(job: Job, clients: int, limit: float = 600.0) -> Times:
    """Lets so many clients do the same job side by side; `limit` is the most seconds for a phase.

    Raises `OutcomeUnknown` when a client fails, dies or is too slow: half a crew's time means
    nothing.
    """
    if not 1 <= clients <= CLIENTS_MAX:
        raise BadOption("--clients", clients, f"1 to {CLIENTS_MAX}")
    context = get_context("spawn")  # a fork would share the parent's sockets and threads
    crew: list[tuple[BaseProcess, Connection]] = []
    try:
        for _ in range(clients):
            ours, theirs = context.Pipe()
            process = context.Process(target=_live, args=(job, theirs), daemon=True)
            process.start()
            theirs.close()  # so that a client that dies is an end of file here
            crew.append((process, ours))
        lines = [line for _, line in crew]
        _gather(lines, START_SECONDS)
        put_seconds, get_seconds = (_phase(lines, limit) for _ in PHASES)
    finally:
        _dismiss(crew)
    total = put_seconds + get_seconds
    return Times(put_seconds, get_seconds, 100 * total / (2 * clients * job.operations))


def _live(job: Job, parent: Connection) -> None:
    """A client's process: before each phase it says that it is there, and waits to be let in."""
    signal(SIGINT, SIG_IGN)  # Ctrl-C is for the parent, which ends us
    with suppress(EOFError, BrokenPipeError):  # the parent has gone, or ends us for another's fault
        _do(job, parent)


def _do(job: Job, parent: Connection) -> None:
    try:
        with opened(job) as queue:
            parent.send("")
            for phase in PHASES:
                parent.recv()
                phase(queue, job)
                parent.send("")
    except (BrokenPipeError, EOFError):
        raise
    except (SnowmeltError, OSError) as error:
        parent.send(f"{type(error).__name__}: {error}")


def _phase(lines: list[Connection], limit: float) -> float:
    """Opens the gate, and waits until all have come to the next."""
    begin = time.perf_counter()
    for line in lines:
        line.send("")
    _gather(lines, limit)
    return time.perf_counter() - begin


def _gather(lines: list[Connection], limit: float) -> None:
    """Waits for a word of each; any word but the empty one is a failure."""
    end = time.monotonic() + limit
    missing = list(lines)
    while missing:
        ready = wait(missing, max(0.0, end - time.monotonic()))
        if not ready:
            text = f"{len(missing)} of {len(lines)} clients were not done after {limit:g} s"
            raise OutcomeUnknown(text)
        for line in [one for one in missing if one in ready]:
            missing.remove(line)
            _check(line)


def _check(line: Connection) -> None:
    try:
        word = line.recv()
    except EOFError:
        raise OutcomeUnknown("a client's process ended without a word") from None
    if word:
        raise OutcomeUnknown(f"a client failed: {word}")


def _dismiss(crew: list[tuple[BaseProcess, Connection]]) -> None:
    for process, line in crew:
        line.close()
        process.join(timeout=0.2 if process.is_alive() else None)
        if process.is_alive():
            process.kill()
            process.join()
