"""The driver of one node: gives it events, carries out its effects, decides nothing.

Everything happens in the event loop's thread but the flush, which is the commit thread's. What a
machine asks while an event is being carried out (a message to itself never gets here; a completion
may) waits its turn, so a machine never sees two events at once. However many wait, the loop goes
round between them once they have taken long enough: others are heard, whatever a machine reads
piece after piece.

To wake the commit's thread, and to be woken by it, costs more than a small step itself. So where no
other node waits to hear from this one, and a step is alone and one write, the loop's thread writes
it; what comes together when the loop goes round is written together, by the commit's thread. A disk
that was slow once is not waited for here for a while: it holds up the loop once, and not all the
time.

Whoever can't write or read halts. A write that failed otherwise than for room is told as `fatal`,
which the node answers with `Halt`. A store that refuses to read has no event to tell it by, so
there the driver halts by itself, when what else came with that flush has been told.

What a client's call would read from the disk is not read before that client has room for answers:
thousands of reads may have waited for one flush, and would all be in memory at once.

How long the turns of a driver take: by the clock, and of the processor.

While a turn lasts the node hears nobody. By the clock that includes what the system gave to other
programs meanwhile; what this program is responsible for is the processor's time. Asking for that is
a call to the system, of microseconds on some: so it is asked for only where the last answer is not
fresh, and what the thread did since that answer is counted to the turn. It is too much by `FRESH`
at most, and never too little.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from time import perf_counter, thread_time
from typing import Any, Final

from snowmelt.core.errors import MachineError, Unavailable
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    Announced,
    Event,
    Expired,
    Halt,
    Load,
    Node,
    Persist,
    PersistFailed,
    Received,
    Requested,
    Scan,
)
from snowmelt.protocols.calling import Call
from snowmelt.runtime.clock import seconds_until, steady_now, wall_now
from snowmelt.runtime.logs import LOG, tell
from snowmelt.runtime.running import NodeRunner, Watcher, loaded, persisted
from snowmelt.store import Completion, GroupCommit, Store

FRESH: Final = 0.002
LONG: Final = 0.02
"""Turns that take so much of the processor are told, one by one, where the log has `debug`."""
FENCE: Final = -1
TURN_SECONDS: Final = 0.005
"""After so long what follows from an event waits for the loop to go round."""
QUICK_SECONDS: Final = 0.01
SLOW_SECONDS: Final = 10.0
"""A disk that was slower than that is not waited for in the loop's thread for so long."""
CROWD_SECONDS: Final = 0.01
"""Nor for so long after several steps came at once: the loop had better hear the next of them."""


class Turns:
    """The longest of them.

    >>> turns = Turns()
    >>> _ = turns.begin(),  sum(range(500_000)); turns.end(Expired(None))
    >>> 0 < turns.longest_cpu <= turns.longest, turns.longest_event
    (True, 'Expired NoneType')
    """

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds by the clock of the longest one."""
        self.longest_cpu = 0.0
        """Seconds of the processor of the one that took most of those."""
        self.longest_event = ""
        """What that one was about."""
        self._began = 0.0
        self._asked = -1.0
        self._cpu = 0.0

    def begin(self) -> float:
        """A turn begins, at this moment of `perf_counter`."""
        now = perf_counter()
        if now - self._asked > FRESH:
            self._cpu, self._asked = thread_time(), now
        self._began = now
        return now

    def end(self, event: Event[Any]) -> None:
        """The turn that this event began is over."""
        took = perf_counter() - self._began
        if took <= self.longest_cpu and took < LONG:
            return
        cpu = min(took, thread_time() - self._cpu)
        self.longest = max(self.longest, took)
        if cpu > self.longest_cpu:
            self.longest_cpu, self.longest_event = cpu, named(event)
        if cpu > LONG and LOG.isEnabledFor(logging.DEBUG):
            fields = {"about": named(event), "seconds": round(took, 4), "cpu": round(cpu, 4)}
            tell("a long turn", logging.DEBUG, **fields)


def named(event: Event[Any]) -> str:
    """What an event is, in a word or two.

    >>> from snowmelt.core.names import NodeId, OperationId
    >>> named(Received(NodeId("n1"), Call(7, "put")))
    'Call str'
    """
    match event:
        case Received(_, Call(_, body)):
            return f"Call {type(body).__name__}"
        case Received(_, message):
            return f"Received {type(message).__name__}"
        case Requested(_, body):
            return f"Requested {type(body).__name__}"
        case Announced(fact):
            return f"Announced {type(fact).__name__}"
        case Expired(timer):
            return f"Expired {type(timer).__name__}"
        case _:
            return type(event).__name__


class Driver(NodeRunner):
    """Runs one node on the running event loop."""

    def __init__(
        self,
        node: Node[Any],
        send: Callable[[NodeId, Any], None],
        watcher: Watcher,
        store: Store | None = None,
    ) -> None:
        super().__init__(node, send, watcher, store)
        self.turns = Turns()
        """How long the events took, each with all that followed from it at once."""
        self._loop = asyncio.get_running_loop()
        self._commit = GroupCommit(store, self._flushed) if store is not None else None
        self._timers: dict[Enum, asyncio.TimerHandle] = {}
        self._persisting = 0
        self.alone = False
        """Whether no other node waits to hear from this one."""
        self._thread_until = 0.0
        self._writing = False  # what was asked in this turn of the loop is about to be written
        self._fences: deque[Load | Scan] = deque()
        self.gathered: Callable[..., None] = lambda work, *given: work(*given)
        """Does a piece of work; what is sent meanwhile may leave together at its end."""
        self.has_room: Callable[[NodeId], bool] = lambda _: True
        """Whether a client reads what it is answered; `resumed` is to say when it does again."""
        self._held: dict[NodeId, deque[Load | Scan]] = {}
        """What is read for clients once they have room."""

    def stop(self, timeout: float) -> None:
        """No more events; what was asked of the disk is done first, within the time."""
        self.stopped = True
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        if self._commit is not None:
            self._commit.close(timeout)

    def received(self, source: NodeId, message: Any) -> None:
        self.handle(Received(source, message))

    @property
    def persisting(self) -> int:
        return self._persisting

    @property
    def behind(self) -> bool:
        """Whether what was asked before waits for its turn, which it has as long as this runs."""
        return bool(self._waiting) and not self.stopped

    def handle(self, event: Event[Any]) -> None:
        """One event, and all that follows from it at once."""
        self._waiting.append(event)
        if not self._busy and len(self._waiting) == 1:  # or a turn is due for those before it
            self._turn()

    def _turn(self) -> None:
        """What waits, one after the other, for some time."""
        self._busy = True
        first = event = self._waiting.popleft()
        end = self.turns.begin() + TURN_SECONDS
        try:
            while True:
                if self.stopped:
                    return
                self._step(event, steady_now())
                if not self._waiting:
                    return
                if perf_counter() > end:
                    self._loop.call_soon(self._turn)
                    return
                event = self._waiting.popleft()
        except Exception as error:  # a bug must not look like a lost connection
            self.crash(error)
        finally:
            self._busy = False
            self.turns.end(first)

    # --- timers -----------------------------------------------------------------------------------

    def _set_timer(self, timer: Enum, at: Instant) -> None:
        self._cancel_timer(timer)
        self._timers[timer] = self._loop.call_later(seconds_until(at), self._expire, timer)

    def _cancel_timer(self, timer: Enum) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _expire(self, timer: Enum) -> None:
        del self._timers[timer]
        self.handle(Expired(timer, wall_now()))

    # --- the disk ---------------------------------------------------------------------------------

    def _persist(self, effect: Persist) -> None:
        assert self._commit is not None, "this node was given no disk"
        here = self.alone and perf_counter() > self._thread_until
        try:
            self._commit.submit(effect.ticket, effect.changes, wake=not here)
            self._persisting += 1
            if here and not self._writing:
                self._writing = True
                self._loop.call_soon(self._write)
        except (Unavailable, MachineError) as error:
            self._waiting.append(PersistFailed(effect.ticket, str(error)))

    def _write(self) -> None:
        """What was asked in this turn: here if it is one step, else by the commit's thread."""
        assert self._commit is not None
        self._writing = False
        began = perf_counter()
        done = self._commit.made_here() if self._persisting == 1 else []
        if not done:
            self._commit.wake()
            return
        if perf_counter() - began > QUICK_SECONDS:
            self._thread_until = began + SLOW_SECONDS
        self.gathered(self._completed, done)

    def _load(self, effect: Load | Scan) -> None:
        assert self._commit is not None, "this node was given no disk"
        if self._persisting:  # rule 5: it sees what was asked before it
            self._fences.append(effect)
            self._commit.submit(FENCE, ())
            self._persisting += 1
        else:
            self._read(effect)

    def _read(self, effect: Load | Scan) -> None:
        reader = effect.client if type(effect) is Load else None
        if reader is not None and (reader in self._held or not self.has_room(reader)):
            self._held.setdefault(reader, deque()).append(effect)
        else:
            self._loaded(effect)

    def resumed(self, reader: NodeId) -> None:
        """A client reads again, or is gone: what its calls would read is read, one by one."""
        if reader in self._held:
            self._loop.call_soon(self._read_on, reader)

    def _read_on(self, reader: NodeId) -> None:
        held = self._held.get(reader)
        if held is None or self.stopped or not self.has_room(reader):
            return
        self._loaded(held.popleft())
        if held:
            self._loop.call_soon(self._read_on, reader)
        else:
            self._held.pop(reader, None)

    def _loaded(self, effect: Load | Scan) -> None:
        assert self._store is not None
        found = loaded(self._store, effect)
        if isinstance(found, Halt):
            self._loop.call_soon(self._halt, found)
        else:
            self.handle(found)

    def _flushed(self, completions: list[Completion]) -> None:
        """In the writer's thread: one hop to the loop for a whole flush."""
        self._loop.call_soon_threadsafe(self.gathered, self._completed, completions)

    def _completed(self, completions: list[Completion]) -> None:
        self._persisting -= len(completions)
        if len(completions) > 1:
            self._thread_until = max(self._thread_until, perf_counter() + CROWD_SECONDS)
        for completion in completions:
            if self.stopped:
                return
            if completion.ticket == FENCE:
                self._read(self._fences.popleft())
            else:
                self.handle(persisted(completion.ticket, completion.failure))
