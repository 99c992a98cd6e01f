"""A machine that runs: its events one at a time, its effects carried out, in their order.

    event --> node.handle(event, now) --> effects --> the network, timers, the disk, whoever watches

Here an effect becomes a deed, for every process that there is. What differs is who waits: a node's
loop for its timers, and a thread of its own for the disk (`driver.py`); or whoever calls, for both
(`steps.py`): a process of a pool, an open folder, and a blocking client. Each says what a timer and
the disk are to it, and when its machine has its turn. Nothing here decides anything.

The simulated world carries effects out by itself (`snowmelt_world`), for there network,
disk and time are made; the explorer keeps them as values, to go back to them.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, assert_never

from snowmelt.core.errors import DiskFull, MachineError
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Effect,
    Event,
    Halt,
    Load,
    Loaded,
    Node,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Scan,
    Send,
    SetTimer,
    Started,
)
from snowmelt.runtime.clock import wall_now
from snowmelt.store import Store


class Watcher(Protocol):
    """Whoever has a machine run: told what is not for the network or the disk."""

    def announced(self, effect: Announce) -> None:
        """A machine told a fact."""

    def noted(self, effect: Note) -> None: ...

    def replied(self, effect: Reply[Any]) -> None:
        """A call made from inside this process was answered."""

    def halted(self, effect: Halt) -> None:
        """The node must not go on."""

    def crashed(self, error: BaseException) -> None:
        """A machine raised: a bug. Its state is worth nothing any more."""


class EndWatcher:
    """A watcher to whom only the end of the machine matters."""

    def announced(self, effect: Announce) -> None:
        """There is nobody to tell."""

    def noted(self, effect: Note) -> None: ...

    def replied(self, effect: Reply[Any]) -> None: ...


class NodeRunner:
    """One node, and who carries out what it asks."""

    def __init__(
        self,
        node: Node[Any],
        send: Callable[[NodeId, Any], None],
        watcher: Watcher,
        store: Store | None = None,
    ) -> None:
        self.events = 0
        self.stopped = False
        self._node = node
        self._send = send
        self._watcher = watcher
        self._store = store
        self._waiting: deque[Event[Any]] = deque()
        self._busy = False

    def start(self) -> None:
        """The node's first event, with what its disk holds."""
        if self._store is None:
            self.handle(Started(wall=wall_now()))
        else:
            recovered = self._store.recover()  # it takes time: the wall clock is read after it
            self.handle(Started(recovered.records, recovered.damaged, wall_now()))

    def handle(self, event: Event[Any]) -> None:
        """One event, and what follows from it; one that comes meanwhile waits for its turn."""
        raise NotImplementedError

    def crash(self, error: BaseException) -> None:
        """The machine, or what it runs in, raised."""
        self.stopped = True
        self._waiting.clear()
        self._watcher.crashed(error)

    def _step(self, event: Event[Any], now: Instant) -> None:
        self.events += 1
        for effect in self._node.handle(event, now):
            if type(effect) is Send:  # the most frequent by far
                self._send(effect.target, effect.message)
            elif type(effect) is Reply:
                self._watcher.replied(effect)
            elif type(effect) is Persist:
                self._persist(effect)
            else:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect[Any]) -> None:
        match effect:
            case Send(target, message):
                self._send(target, message)
            case SetTimer(timer, at):
                self._set_timer(timer, at)
            case CancelTimer(timer):
                self._cancel_timer(timer)
            case Persist():
                self._persist(effect)
            case Load() | Scan():
                self._load(effect)
            case Reply():
                self._watcher.replied(effect)
            case Announce():
                self._watcher.announced(effect)
            case Note():
                self._watcher.noted(effect)
            case Halt():
                self._halt(effect)
            case _:
                assert_never(effect)

    def _halt(self, halt: Halt) -> None:
        """The node's last word, or of its store, that refuses to read and has no event for it."""
        if not self.stopped:
            self.stopped = True
            self._watcher.halted(halt)

    # --- what differs -----------------------------------------------------------------------------

    def _set_timer(self, timer: Enum, at: Instant) -> None:
        raise NotImplementedError

    def _cancel_timer(self, timer: Enum) -> None:
        raise NotImplementedError

    def _persist(self, effect: Persist) -> None:
        raise NotImplementedError

    def _load(self, effect: Load | Scan) -> None:
        raise NotImplementedError


def persisted(ticket: int, failure: MachineError | None) -> Persisted | PersistFailed:
    """What became of changes, as the event that tells it (`core.node`, rule 4).

    >>> persisted(7, None), persisted(8, DiskFull("no room")).fatal
    (Persisted(ticket=7), False)
    """
    if failure is None:
        return Persisted(ticket)
    return PersistFailed(ticket, str(failure), fatal=not isinstance(failure, DiskFull))


def loaded(store: Store, effect: Load | Scan) -> Loaded | Halt:
    """What is found, as the event that tells it; a store that refuses to read ends the node."""
    try:
        match effect:
            case Load(ticket, keys):
                return Loaded(ticket, store.load(keys))
            case Scan(ticket, start, stop, bytes_max):
                return Loaded(ticket, tuple(store.scan(start, stop, bytes_max=bytes_max)))
    except MachineError as error:
        return Halt(str(error), type(error).__name__)
