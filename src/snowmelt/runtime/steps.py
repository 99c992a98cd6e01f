"""A machine run by whoever calls it: all that follows from an event is done when `handle` is back.

As `driver.py`, without a loop: everything happens at once, in the thread that has its lock. What is
asked of the disk is done, flushed, and told before the step is over. Who has the lock waits for the
timers, too: `due` says when the first is, and `expire` lets them. Who has several events at once
has them `together`: what they ask of the disk is one flush.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

from snowmelt.core.errors import StoreError
from snowmelt.core.instant import START, Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Event, Expired, Halt, Load, Node, Persist, Scan
from snowmelt.runtime.clock import real_now, wall_now
from snowmelt.runtime.running import NodeRunner, Watcher, loaded, persisted
from snowmelt.store import Store

FOR_EVER: Final = Instant(1 << 62)


class Steps(NodeRunner):
    """Runs one machine, an event at a time."""

    def __init__(
        self,
        node: Node[Any],
        send: Callable[[NodeId, Any], None],
        watcher: Watcher,
        store: Store | None = None,
        clock: Callable[[], Instant] = real_now,
    ) -> None:
        super().__init__(node, send, watcher, store)
        self.due = FOR_EVER
        """When the first timer is."""
        self._timers: dict[Enum, Instant] = {}
        self._asked: list[Persist] = []
        """Of the disk, and not written yet."""
        self._gathers = False
        self._clock = clock
        self._told = START
        """No earlier than this is it to the machine: rule 2 of `core.node`."""

    def handle(self, event: Event[Any]) -> None:
        """One event, and all that follows from it; one that comes meanwhile waits for its turn."""
        if not self.stopped:
            self._waiting.append(event)
            self._go_on()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Events that are handled in this block are written at its end, with one flush."""
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False
            if self._asked and not self.stopped:
                self._write()
                self._go_on()

    def _go_on(self) -> None:
        waiting = self._waiting
        if self._busy:
            return
        self._busy = True
        try:
            while waiting and not self.stopped:
                now = self._clock()
                self._step(waiting.popleft(), now if now > self._told else self._told)
        except BaseException as error:
            # Whatever it was, the machine may be half through its step: its memory is worthless.
            self.crash(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._busy = False

    def expire(self, now: Instant) -> None:
        """Every timer that is due by then; to the machine it is no earlier from now on."""
        self._told = now
        while self.due <= now and not self.stopped:
            timer = min(self._timers, key=self._timers.__getitem__)
            del self._timers[timer]
            self._set_due()
            self.handle(Expired(timer, wall_now()))

    def close(self) -> None:
        """The machine is over, and what it kept is nobody's, whoever still knows it."""
        self.stopped = True
        self._waiting.clear()
        self._timers.clear()
        del self._node

    # --- what it asks -----------------------------------------------------------------------------

    def _set_timer(self, timer: Enum, at: Instant) -> None:
        self._timers[timer] = at
        self._set_due()

    def _cancel_timer(self, timer: Enum) -> None:
        self._timers.pop(timer, None)
        self._set_due()

    def _set_due(self) -> None:
        self.due = min(self._timers.values(), default=FOR_EVER)

    def _persist(self, effect: Persist) -> None:
        self._asked.append(effect)
        if not self._gathers:
            self._write()

    def _write(self) -> None:
        assert self._store is not None, "this machine was given no disk"
        asked, self._asked = self._asked, []
        try:
            failures = self._store.commit([one.changes for one in asked])
        except StoreError as error:
            failures = [error] * len(asked)
        for one, failure in zip(asked, failures, strict=True):
            self._waiting.append(persisted(one.ticket, failure))

    def _load(self, effect: Load | Scan) -> None:
        assert self._store is not None, "this machine was given no disk"
        if self._asked:
            self._write()
        found = loaded(self._store, effect)
        if isinstance(found, Halt):
            self._halt(found)
        else:
            self._waiting.append(found)
