"""The engine of one process in a pool: a machine, its links, its timers, and who runs them.

One thread of its own runs all of it (`engine_thread.py`). A call leaves a word for it and waits for
the answer, in a thread or in an event loop (`asking.py`); `runtime/steps.py` has the machine,
`links.py` the network.

Nothing that the program does to itself ends an engine: an interrupt ends the wait of a call, never
a step; a call that nobody waits for any more is withdrawn, and what it brought goes back. A fork
takes no engine along: a child closes its copies of the sockets, and that is all it may do.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Buffer
from snowmelt.core.errors import CallerError, Closed, OutcomeUnknown, StoreVersion
from snowmelt.core.instant import later, seconds
from snowmelt.core.names import Address
from snowmelt.core.node import Announce, Announced, Halt, Node, Reply, Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import (
    CLOSED,
    Acquaintances,
    Ahead,
    ListensAt,
    LoanExpired,
    Need,
    PoolPut,
)
from snowmelt.runtime.bell import Bell
from snowmelt.runtime.clock import real_now, seconds_until, steady_now
from snowmelt.runtime.forks import watch
from snowmelt.runtime.peer.asking import Calls, FreeSlots, PendingCall, Words
from snowmelt.runtime.peer.config import PeerConfig
from snowmelt.runtime.peer.engine_thread import CLOSING, Alarm, EngineThread
from snowmelt.runtime.peer.limits import LARGE
from snowmelt.runtime.peer.links import Links, LinkStatistics, forsake
from snowmelt.runtime.peer.protection import Protection
from snowmelt.runtime.running import EndWatcher
from snowmelt.runtime.steps import Steps
from snowmelt.store import Store
from snowmelt.wire.greeting import as_error

MARGIN: Final = (1.0,) * 5
"""The waits after a call's time, for the machine to say that it is over. Where the process stands
still in one of them, so does the machine, and has the others."""
LEFT: Final = (
    "this part in a pool belongs to the process that this one was forked from; connect anew in "
    "this one"
)

ENDED: Final = (
    "the interpreter shuts down, and what this part in a pool had kept goes with it; close it "
    "before: use it in a `with`, or have `atexit` close it"
)
WITHIN: Final = (
    "this thread runs the pool, and a finalizer that comes in its way can't call it: have it leave "
    "a word for another thread"
)


class PoolEffects(EndWatcher):
    def __init__(
        self,
        links: Links,
        calls: Calls,
        places: FreeSlots,
        failed: Callable[[str, str], None],
    ) -> None:
        self._links = links
        self._calls = calls
        self._places = places
        self._failed = failed
        """It must not go on: a name from `core.errors`, and a sentence."""

    def announced(self, effect: Announce) -> None:
        match effect.fact:
            case Ahead():
                self._places.told(effect.fact)
            case Acquaintances():
                self._links.acquaint(effect.fact)
            case Need():
                self._links.needed(effect.fact)
            case LoanExpired(consumer, token):
                self._links.expired(consumer, token)

    def replied(self, effect: Reply[Any]) -> None:
        self._calls.answered(effect.operation, effect.message)

    def halted(self, effect: Halt) -> None:
        self._failed(effect.error, effect.reason)

    def crashed(self, error: BaseException) -> None:
        if isinstance(error, StoreVersion):
            self._failed("StoreVersion", str(error))  # it stopped before it touched anything
            return
        self._failed("MachineCrashed", f"this pool's machine raised {error!r}; open it anew")


class EngineStatistics(msgspec.Struct, frozen=True):
    events: int
    calls: int
    links: LinkStatistics


class Engine:
    """Runs a machine for a process of a pool; threads may share it."""

    def __init__(self, node: Node[Any], config: PeerConfig, store: Store | None = None) -> None:
        self.config = config.checked()
        protection = Protection(config.credentials)  # before anything is open: it reads files
        self._store = store
        self._calls = Calls(config.name)
        self._alarm = Alarm()
        self.words = Words(self._alarm.wake)
        self._links = Links(config, protection, self._alarm.ring, self.words.watch)
        self.places = FreeSlots(self.words)
        told = PoolEffects(self._links, self._calls, self.places, self.failed)
        self.tell = self._calls.tell
        self._steps = Steps(node, self._links.send, told, store)
        self._links.report = self._steps.handle
        self._owner = EngineThread(self, self._steps, self._links, self._alarm, self.words)
        self._closing = False
        try:
            self.address = self._start()
        except BaseException:
            self._owner.leave(real_now())
            raise
        self._owner.start()
        watch(self)

    def _start(self) -> Address:
        self._links.poller.add(self._alarm, self._alarm, edge=self._alarm.edge)
        listening = self._links.listen(self.config.listen)
        address = self.config.told(listening)
        self._steps.start()
        self._steps.handle(Announced(ListensAt(address)))
        self._links.flush()
        self.check()
        return address

    # --- calls ------------------------------------------------------------------------------------

    def call(self, message: Any, timeout: float) -> Any:
        """Calls the machine, waits, and returns the answer's body; raises what went wrong."""
        return self.ask(message, timeout).take()

    def ask(self, message: Any, timeout: float) -> PendingCall:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        bell = Bell()
        return self._await(message, PendingCall(self.words, bell.answer), bell, timeout)

    def _await(self, message: Any, asked: PendingCall, bell: Bell, timeout: float) -> PendingCall:
        if self._owner.here:
            raise CallerError(WITHIN)
        end = later(steady_now(), seconds(max(0.0, timeout)))
        try:
            self.begin(message, asked)
            while not asked.answered and (left := seconds_until(end)):
                bell.wait(left)
            for more in MARGIN:
                if not asked.answered:
                    bell.wait(more)
            return self.checked(asked)
        except BaseException:
            asked.drop()
            raise

    def begin(self, message: Any, asked: PendingCall) -> None:
        """Calls the machine; the answer is told to `asked`, in the owner's thread."""
        self._begin(message, asked.answer, asked)

    def submit(self, message: Any, done: Callable[[Any], None]) -> None:
        """Calls the machine; `done(body)` is called once, in the owner's thread.

        So it must only hand over. A body that is `Declined` is what went wrong.
        """
        self._begin(message, done, None)

    def _begin(self, message: Any, done: Callable[[Any], None], asked: PendingCall | None) -> None:
        self._check_here()
        self.check()
        operation = self._calls.begin(done)
        if asked is not None:
            asked.number = operation.number
        self.words.leave(Requested(operation, message))
        failure = self._owner.failure
        if failure is not None:  # it came meanwhile, and nobody may look at words any more
            self._calls.end(*failure)

    def checked(self, asked: PendingCall) -> PendingCall:
        """One that is answered; raises what went wrong, with a link's last failure as a note."""
        if not asked.answered:
            raise OutcomeUnknown("no answer came in the time given")
        body = asked.body
        if not isinstance(body, Declined):
            return asked
        error = as_error(body.error, body.text)
        failure = self.last_failure
        if failure is not None:
            error.add_note(f"the last link that did not come to be: {failure}")
        raise error

    def put_ahead(self, put: PoolPut) -> bool:
        """Whether it found a place that was told of ahead: then it is in, and nobody need wait."""
        self._check_here()
        self.check()
        place = self.places.take(len(put.blob))
        if place is None:
            return False
        put = PoolPut(put.offsets, put.blob, put.patience, put.asker, place.size)
        self.places.leave(place, Requested(self._calls.aside(), put))
        if self.words.left or self.words.closed:  # since it was looked at: it may be too late
            raise OutcomeUnknown("the pool was closed while this was put")
        return True

    def room(self, size: int) -> memoryview:
        """Memory to write a large body into."""
        room = self._links.segments.room(size) if size >= LARGE else None
        return memoryview(bytearray(size)) if room is None else room

    def written(self, body: Buffer) -> memoryview | None:
        """A large body where those of this machine read it; None where none of them asks."""
        segments = self._links.segments
        return segments.written(body) if segments.readers else None

    def announce(self, fact: msgspec.Struct) -> None:
        """Tells the machine a fact."""
        self._check_here()
        self.check()
        self.words.leave(Announced(fact))

    def say(self, word: Any) -> None:
        """In the owner's thread: a message without an answer, or an event."""
        if type(word) is not Requested and type(word) is not Announced:
            word = Requested(self._calls.aside(), word)
        self._steps.handle(word)

    def _check_here(self) -> None:
        if self.words.left:
            raise Closed(LEFT)
        if sys.is_finalizing():  # its own thread has ended
            raise Closed(ENDED)

    def check(self) -> None:
        if self._closing:
            raise Closed(CLOSED)
        if self._owner.failure is not None:
            raise as_error(*self._owner.failure)

    # --- what the machine tells -------------------------------------------------------------------

    def failed(self, error: str, text: str) -> None:
        """The machine has stopped, or the owner: all calls end."""
        self._owner.stopped(error, text)
        self._calls.end(*self._owner.failure or (error, text))

    # --- its end ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the process that this one was forked from."""
        return self.words.left or self._closing

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._owner.ended

    @property
    def last_failure(self) -> Exception | None:
        """Why a link did not come to be, whoever dialled; nothing once a node is reached."""
        return self._links.last_failure

    def statistics(self) -> EngineStatistics:
        self._check_here()
        return EngineStatistics(self._steps.events, self._calls.count, self._links.statistics())

    def leave(self, stop: Any, timeout: float, closing: float = CLOSING) -> Any:
        """The machine leaves in order, then all ends by itself, also if this is interrupted.

        Returns what the machine said of it.
        """

        def left(asked: PendingCall) -> None:
            if not isinstance(asked.body, Declined):
                self._closing = True
                self._owner.leave(later(real_now(), seconds(closing)))
            bell.ring()

        bell = Bell()
        told = self._await(stop, PendingCall(self.words, left), bell, timeout).take()
        self.close(closing)
        return told

    def close(self, timeout: float = CLOSING) -> None:
        """Sends what is queued, within the time, and ends everything."""
        if self.words.left or sys.is_finalizing():
            return
        if not self._closing:
            self._closing = True
            self._owner.leave(later(real_now(), seconds(max(0.0, timeout))))
        self._owner.join()

    def over(self) -> None:
        """In the owner's thread: its disk is given back."""
        if self._store is not None:
            self._store.close()

    def forked(self) -> None:
        """In a child: nothing of it is the child's, and nothing is said for its parent."""
        self.words.left = True
        forsake(self._links)
        self._alarm.close()
        if self._store is not None:
            self._store.forsake()
