"""Group commit: one thread writes, and one flush serves all that wait.

    submit(ticket, changes)    from the thread that runs the machines; returns at once
    completed([...])           called in the writer's thread, once a flush, in the order asked

The thread sleeps until something is submitted, takes all there is, and commits it with one flush.
What comes in the meantime waits for the next. So one that comes alone is written at once, and the
more come together, the more share a flush; there is nothing to tune. `completed` is for handing
over to the event loop, by one `loop.call_soon_threadsafe` a flush.

A ticket without changes is a fence: it completes when all before it have, and costs no flush. A
read that must see what was asked before it waits behind one.

Every ticket that was taken is answered exactly once, also when the disk fails: then by a
`StoreError`, for those whose fate is unknown and for all that come after.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from snowmelt.core.errors import MachineError, StoreError, Unavailable
from snowmelt.store.changes import Group, Measure, measured
from snowmelt.store.durable import Store

WAITING_BYTES_MAX: Final = 64 << 20
_Waiting = tuple[int, Group, Measure]
"""A ticket, and what it asks for, which is measured once."""


class Completion(msgspec.Struct, frozen=True):
    """What became of a ticket: `failure` is None when its changes are safe."""

    ticket: int
    failure: MachineError | None = None


class GroupCommit:
    """The one thread that writes to a store.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from snowmelt.core.record import Write
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
    ...     commit = GroupCommit(store, completed=print)
    ...     commit.submit(1, [Write(b"view", b"7")])
    ...     commit.close(timeout=10)
    [Completion(ticket=1, failure=None)]
    True
    """

    def __init__(
        self,
        store: Store,
        completed: Callable[[list[Completion]], None],
        *,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        self._store = store
        self._completed = completed
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._closing = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # A daemon, so that a program that forgot to close can still end.
        self._thread = threading.Thread(target=self._run, name="snowmelt-commit", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """Bytes submitted and not yet taken by the thread; slow down when this grows."""
        return self._waiting_bytes

    def submit(self, ticket: int, changes: Group, *, wake: bool = True) -> None:
        """Asks for these changes; raises `Unavailable` when too much waits, or after `close`.

        A group above the limit by itself is taken when nothing else waits, and a fence always. Who
        does not wake the thread owes it `made_here` or `wake`.
        """
        measure = measured(changes)
        size = measure.weight
        with self._lock:
            if self._closing:
                raise Unavailable("the store is closing; nothing more is written")
            if changes and self._waiting and self._waiting_bytes + size > self._waiting_bytes_max:
                raise Unavailable(
                    f"{self._waiting_bytes} bytes wait for the disk and {size} more are asked for; "
                    f"the limit is {self._waiting_bytes_max}. Ask again when some are done"
                )
            self._waiting.append((ticket, changes, measure))
            self._waiting_bytes += size
            if wake:
                self._changed.notify()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def made_here(self) -> list[Completion]:
        """Makes what waits in the thread that calls, if it is one group and one write.

        For when all that was asked before has been completed. Nothing means: by the thread.
        """
        with self._lock:
            if len(self._waiting) != 1:
                return []
            one = ticket, changes, measure = self._waiting[0]
            if not changes:
                return []
            self._waiting.clear()
            self._waiting_bytes = 0
        try:
            if self._store.commit_logged(changes, measure):
                return [Completion(ticket)]
        except Exception as error:
            return [Completion(ticket, _failure(error))]
        with self._lock:
            if not self._closing:
                self._waiting.append(one)
                self._waiting_bytes = measure.weight
                return []
        (failure,) = self._commit([one])  # the thread may have ended meanwhile
        return [Completion(ticket, failure)]

    def close(self, timeout: float) -> bool:
        """Takes no more, and waits for what is there; whether all of it is done in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (taken := self._take(self._store.shrink())) is not None:
                if taken:
                    failures = self._commit(taken)
                    tickets = [ticket for ticket, _, _ in taken]
                    self._completed(list(map(Completion, tickets, failures)))
        finally:
            self._closing = True  # should `completed` raise, nobody hears: refuse what comes

    def _take(self, timeout: float | None) -> list[_Waiting] | None:
        """Waits until there is something, for so long at most, and takes all; None is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing, timeout)
            if self._closing and not self._waiting:
                return None
            taken = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            return taken

    def _commit(self, taken: Sequence[_Waiting]) -> Sequence[MachineError | None]:
        try:
            groups, measures = [one[1] for one in taken], [one[2] for one in taken]
            return self._store.commit(groups, measures)
        except Exception as error:
            return [_failure(error)] * len(taken)


def _failure(error: Exception) -> MachineError:
    """What the tickets are answered, also when it is a bug."""
    if isinstance(error, MachineError):
        return error
    failure = StoreError(f"the writer of the store failed: {error!r}")
    failure.__cause__ = error
    return failure
