"""The machine of one process in a pool: gives it events, carries out its effects, decides nothing.

As `runtime.driver`, without a loop: everything happens at once, in the thread of whoever has the
engine's lock. What is asked of the disk is done, flushed, and told before the step is over.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, assert_never

from snowmelt.core.errors import StoreError, StoreVersion
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Effect,
    Event,
    Expired,
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
from snowmelt.protocols.pool.calls import Acquaintances, Need
from snowmelt.runtime.clock import real_now, wall_now
from snowmelt.runtime.peer.links import FOR_EVER
from snowmelt.store import Store


class Network(Protocol):
    """What carries the machine's messages."""

    def send(self, target: NodeId, message: Any) -> None:
        """A message is to go out."""

    def acquaint(self, told: Acquaintances) -> None:
        """The machine tells whom it knows."""

    def needed(self, told: Need) -> None:
        """The machine tells whether it needs the way to one of them."""


class Owner(Protocol):
    """Whoever runs the machine."""

    replied: Callable[[OperationId, Any], None]
    """A call is answered."""

    def failed(self, error: str, text: str) -> None:
        """The machine must not go on; `error` is a name from `core.errors`."""


class Steps:
    """Runs one machine, an event at a time."""

    def __init__(
        self, node: Node[Any], network: Network, owner: Owner, store: Store | None
    ) -> None:
        self.events = 0
        self.stopped = False
        self.due = FOR_EVER
        """When the first timer is."""
        self.noted: Callable[[str], None] = lambda _: None
        self._node = node
        self._send = network.send
        self._network = network
        self._replied = owner.replied
        self._owner = owner
        self._store = store
        self._waiting: deque[Event[Any]] = deque()
        self._timers: dict[Enum, Instant] = {}
        self._busy = False

    def start(self) -> None:
        """The first event, with what the disk holds."""
        if self._store is None:
            self.handle(Started(wall=wall_now()))
        else:
            recovered = self._store.recover()
            self.handle(Started(recovered.records, recovered.damaged, wall_now()))

    def expire(self, now: Instant) -> None:
        """Every timer that is due."""
        while self.due <= now and not self.stopped:
            timer = min(self._timers, key=self._timers.__getitem__)
            del self._timers[timer]
            self._set_due()
            self.handle(Expired(timer))

    def handle(self, event: Event[Any]) -> None:
        """One event, and all that follows from it; one that comes meanwhile waits for its turn."""
        if self.stopped:
            return
        waiting = self._waiting
        waiting.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while waiting and not self.stopped:
                self.events += 1
                for effect in self._node.handle(waiting.popleft(), real_now()):
                    if type(effect) is Send:  # the most frequent by far
                        self._send(effect.target, effect.message)
                    elif type(effect) is Reply:
                        self._replied(effect.operation, effect.message)
                    else:
                        self._carry_out(effect)
        except BaseException as error:
            # Whatever it was, the machine may be half through its step: its memory is worthless.
            self.crashed("machine", error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._busy = False

    def _carry_out(self, effect: Effect[Any]) -> None:
        match effect:
            case Send(target, message):
                self._send(target, message)
            case Reply(operation, body):
                self._replied(operation, body)
            case SetTimer(timer, at):
                self._timers[timer] = at
                self._set_due()
            case CancelTimer(timer):
                self._timers.pop(timer, None)
                self._set_due()
            case Announce(fact):
                if isinstance(fact, Acquaintances):
                    self._network.acquaint(fact)
                elif isinstance(fact, Need):
                    self._network.needed(fact)
            case Persist():
                self._waiting.append(self._persisted(effect))
            case Load() | Scan():
                self._waiting.append(self._loaded(effect))
            case Note(text):
                self.noted(text)
            case Halt(reason):
                self._stop("Unavailable", reason)
            case _:
                assert_never(effect)

    def _set_due(self) -> None:
        self.due = min(self._timers.values(), default=FOR_EVER)

    def close(self) -> None:
        """The machine is over: what it kept is nobody's, whoever still knows its pool."""
        self.stopped = True
        self._waiting.clear()
        self._timers.clear()
        del self._node

    def crashed(self, what: str, error: BaseException) -> None:
        """Something raised what it should not."""
        if isinstance(error, StoreVersion):
            self._stop("StoreVersion", str(error))  # it stopped before it touched anything
            return
        self._stop("MachineCrashed", f"this pool's {what} raised {error!r}; open it anew")

    def _stop(self, error: str, text: str) -> None:
        self.stopped = True
        self._waiting.clear()
        self._owner.failed(error, text)

    # --- the disk ---------------------------------------------------------------------------------

    def _persisted(self, effect: Persist) -> Persisted | PersistFailed:
        assert self._store is not None, "this machine was given no disk"
        (failure,) = self._store.commit([effect.changes])
        if failure is None:
            return Persisted(effect.ticket)
        if isinstance(failure, StoreError):
            raise failure
        return PersistFailed(effect.ticket, str(failure))

    def _loaded(self, effect: Load | Scan) -> Loaded:
        assert self._store is not None, "this machine was given no disk"
        match effect:
            case Load(ticket, keys):
                return Loaded(ticket, self._store.load(keys))
            case Scan(ticket, start, stop, bytes_max):
                found = self._store.scan(start, stop, bytes_max=bytes_max)
                return Loaded(ticket, tuple(found))
