"""A cluster of one, inside the program that uses it: no server and no socket; one folder.

The queues' machines are the very ones that run on nodes. Whoever calls drives them, in their own
thread and under one lock: gives them the call, commits what they ask of the disk, fires the timers
that are due, and waits, for the next timer or for another thread's step, until the answer is there.
Between calls nothing runs; what became due meanwhile is done by the next call, before it. Only a
fifo made with `flush=SECONDS` has a thread: what may linger must not wait for the next call.

One process holds a folder at a time; another that opens it waits for its turn. Leases of the
process before are over when the next one opens.
"""

import threading
from collections import deque
from collections.abc import Iterable
from enum import Enum
from operator import itemgetter
from pathlib import Path
from random import Random
from threading import get_ident
from time import monotonic, sleep, time_ns
from types import TracebackType
from typing import Any, Final, Self, Unpack, assert_never

import msgspec

from snowmelt.client.forking import Origin, watch
from snowmelt.client.open_loops import end_loops
from snowmelt.client.parts import Parts
from snowmelt.client.pool import Pool
from snowmelt.client.pool_options import PoolOptions
from snowmelt.client.queues import Queues
from snowmelt.client.session import TIMEOUT, Session, checked
from snowmelt.client.staying import stays
from snowmelt.core.errors import (
    CallerError,
    Closed,
    DiskFull,
    MachineCrashed,
    MachineError,
    OutcomeUnknown,
    SnowmeltError,
    StoreBusy,
    StoreError,
    Unavailable,
)
from snowmelt.core.instant import SECOND, Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    CancelTimer,
    Effect,
    Event,
    Expired,
    Halt,
    Load,
    Loaded,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Requested,
    Scan,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import Damaged, Missing, Record, Write
from snowmelt.protocols import fifo, priority
from snowmelt.protocols.calling import FIRST_WAIT, LONGEST_WAIT, Answer, Declined, Elsewhere
from snowmelt.protocols.fifo import FifoNode
from snowmelt.protocols.fifo.calls import Opened
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import View
from snowmelt.protocols.membership.view import Member
from snowmelt.protocols.pool.settings import pool_name
from snowmelt.protocols.priority import PriorityNode
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.shielding import SHIELD
from snowmelt.store import Store
from snowmelt.store.stamp import read_stamp
from snowmelt.wire.greeting import as_error

ME: Final = NodeId("embedded")
HERE: Final = Address("127.0.0.1", 1)  # nobody is ever called there
OPENINGS: Final = b"embedded/openings"
EPOCHS: Final = b"embedded/epochs"
_TRY_AGAIN: Final = 0.05
_FAR: Final = Instant(2**63)


class Asked(msgspec.Struct, eq=False):
    """A call that has no outcome yet."""

    operation: OperationId
    body: Any
    end: Instant
    again: Instant


class Machine:
    """The queues' machines on a store, driven by whoever calls."""

    def __init__(self, folder: Path, store: Store) -> None:
        member, epoch = member_of(folder, store), epoch_of(store)
        self._store = store
        self._session = Session()
        machines = [
            Family("fifo", FifoNode(ME, Random(), alone=True), fifo.MESSAGES),
            Family("priority", PriorityNode(ME, Random(), alone=True), priority.MESSAGES),
        ]
        self._host = Host(ME, machines)
        self.turn = threading.Condition()
        """Held by whoever drives it; told when there are answers."""
        self._events: deque[Event[Any]] = deque()
        self._timers: dict[Enum, Instant] = {}
        self._waiting: set[int] = set()
        self._answers: dict[int, Any] = {}
        self._stepping = 0
        self._failure = ""
        self._linger = Duration(0)  # the longest of the queues in use
        self._end = threading.Event()
        self._origin = Origin()
        self._flusher: threading.Thread | None = None
        watch(self)
        recovered = store.recover()
        self._step(Started(recovered.records, recovered.damaged, time_ns()))
        self._step(Announced(View(cluster=1, epoch=epoch, coordinator=ME, members=(member,))))

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong.

        The time begins when it is this thread's turn: how long others compute is their affair.
        """
        del target, weight
        self._origin.check("this open folder", "one process has it: connect to a node, to share it")
        with self.turn:
            self.check_idle()
            asked = self.begin(body, timeout)
            try:
                number = asked.operation.number
                while number not in self._answers and not self.due(asked):
                    self.turn.wait(self.pause([asked]))
                return self.outcome(asked)
            finally:
                self.forget(asked)

    # --- one call, step by step -------------------------------------------------------------------

    def begin(self, body: Any, timeout: float) -> Asked:
        """Asks; whoever does sees to it that it is looked after until it is due, and forgets it."""
        now, timeout = steady_now(), checked(timeout)
        if self._failure:
            raise Closed(self._failure)
        patience = seconds(timeout) if timeout > 0 else Duration(0)
        operation = self._session.operation()
        asked = Asked(operation, body, later(now, patience), later(now, FIRST_WAIT))
        self._waiting.add(operation.number)
        try:
            self._fire()
            self._step(Requested(operation, body))
        except BaseException:
            self.forget(asked)
            raise
        return asked

    def due(self, asked: Asked) -> bool:
        """Whether there is an outcome by now, if need be after all timers that are due."""
        if asked.operation.number in self._answers:
            return True
        if not self._failure:
            self._fire()
        if self._failure or asked.operation.number in self._answers or not seconds_until(asked.end):
            return True
        if asked.again <= steady_now():  # as any client asks again
            asked.again = later(steady_now(), LONGEST_WAIT)
            self._step(Requested(asked.operation, asked.body))
        return asked.operation.number in self._answers

    def pause(self, waiting: Iterable[Asked]) -> float:
        """For how long nothing is due."""
        instants = [min(one.end, one.again) for one in waiting]
        return seconds_until(min((*instants, *self._timers.values()), default=_FAR))

    def outcome(self, asked: Asked) -> Any:
        """What came of it; raises what went wrong."""
        answer = self._answers.get(asked.operation.number)
        if answer is None:
            why = f": {self._failure}" if self._failure else " in the time given"
            raise OutcomeUnknown(f"no answer came{why}")
        if type(answer) is Declined:
            raise as_error(answer.error, answer.text)
        if type(answer) is Elsewhere:
            raise Unavailable("the embedded node takes itself for another")
        return answer

    def forget(self, asked: Asked) -> None:
        """Nobody wants its answer any more."""
        self._waiting.discard(asked.operation.number)
        self._answers.pop(asked.operation.number, None)

    def forked(self) -> None:
        """A child has no part in the folder, which is freed when its parent ends."""
        self._store.forsake()

    def close(self) -> None:
        """Gives the folder back. Calls that still wait end with `OutcomeUnknown`."""
        if self._origin.left:
            return
        self._end.set()
        if self._flusher is not None:
            self._flusher.join()
        with self.turn:
            try:
                if not self._failure:
                    # What lingers is flushed by timers: they are told that their time has come.
                    self._fire(later(steady_now(), self._linger))
                    self._failure = "this cluster is closed"
            finally:
                self._store.close()
                self.turn.notify_all()

    def check_idle(self) -> None:
        """Raises within its own step: no lock keeps a finalizer out."""
        if self._stepping == get_ident():
            raise CallerError(
                "this thread is in the middle of a call into the same folder: a finalizer can't "
                "call it; have it leave a word for another thread"
            )

    # --- driving the machine ----------------------------------------------------------------------

    def _fire(self, now: Instant | None = None) -> None:
        """Lets every timer that is due expire."""
        while self._timers and not self._failure:
            timer, at = min(self._timers.items(), key=itemgetter(1))
            if at > (steady_now() if now is None else now):
                return
            del self._timers[timer]
            self._step(Expired(timer), now)

    def _step(self, event: Event[Any], now: Instant | None = None) -> None:
        """One event, and all that follows from it at once; no handler of a signal comes in."""
        with SHIELD:
            self._whole_step(event, now)

    def _whole_step(self, event: Event[Any], now: Instant | None) -> None:
        self._events.append(event)
        self._stepping = get_ident()
        try:
            while self._events and not self._failure:
                at = steady_now() if now is None else now
                for effect in self._host.handle(self._events.popleft(), at):
                    self._carry_out(effect)
        except BaseException as error:
            # Whatever it was, the machine may be half through its step: the disk is sound, this
            # memory is not.
            self._failure = f"its machine stopped ({error!r}); open the folder anew"
            self._turn_all()
            if isinstance(error, MachineError) or not isinstance(error, Exception):
                raise
            raise MachineCrashed(f"the embedded machine raised {error!r}") from error
        finally:
            self._stepping = 0

    def _carry_out(self, effect: Effect[Any]) -> None:
        match effect:
            case Send(_, Answer(number, body)):
                if isinstance(body, Opened) and body.settings.linger > self._linger:
                    self._flush_every(body.settings.linger)
                if number in self._waiting:
                    self._answers[number] = body
                    self.turn.notify_all()
            case SetTimer(timer, at):
                self._timers[timer] = at
            case CancelTimer(timer):
                self._timers.pop(timer, None)
            case Persist():
                self._events.append(self._persisted(effect))
            case Load() | Scan():
                self._load(effect)
            case Halt(reason):
                self._halt(reason)
            case Send() | Reply() | Announce() | Note():
                pass  # there is nobody else
            case _:
                assert_never(effect)

    def _persisted(self, effect: Persist) -> Persisted | PersistFailed:
        """Commits at once, also what might linger: nobody would be there to do it later."""
        try:
            (failure,) = self._store.commit([effect.changes])
        except StoreError as error:
            failure = error
        if failure is None:
            return Persisted(effect.ticket)
        return PersistFailed(effect.ticket, str(failure), fatal=not isinstance(failure, DiskFull))

    def _load(self, effect: Load | Scan) -> None:
        """A store that can't be read ends the machine, and no call: each says what became of it."""
        try:
            match effect:
                case Load(ticket, keys):
                    found = self._store.load(keys)
                case Scan(ticket, start, stop, bytes_max):
                    found = tuple(self._store.scan(start, stop, bytes_max=bytes_max))
        except StoreError as error:
            self._halt(str(error))
        else:
            self._events.append(Loaded(ticket, found))

    def _halt(self, reason: str) -> None:
        self._failure = reason
        self._turn_all()

    def _flush_every(self, linger: Duration) -> None:
        """From now on somebody sees to it that what lingers is flushed in time."""
        self._linger = linger
        if self._flusher is None:
            self._flusher = threading.Thread(
                target=self._flush, name="snowmelt-flusher", daemon=True
            )
            self._flusher.start()

    def _flush(self) -> None:
        while not self._end.wait(self._linger / SECOND / 2):
            with self.turn:
                self._fire()

    def _turn_all(self) -> None:
        with self.turn:  # it is re-entrant; the first event comes before anybody holds it
            self.turn.notify_all()


class EmbeddedCluster(Queues):
    """Queues in a folder, made by `snowmelt.open`. Close it, or use it in a `with`.

    Threads may share it; one step of one of them runs at a time.
    """

    __reduce__ = stays("one process has a folder open; others connect to a node")

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder = folder
        self._parts = Parts()
        store = open_store(folder, timeout)
        try:
            self._queues = self._machine = Machine(folder, store)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what went wrong first is what is to be told

    def close(self) -> None:
        """Ends the loops over its queues, and gives the folder back to whoever waits for it."""
        self._machine.check_idle()
        try:
            end_loops(self._machine)
            self._parts.close()
        finally:
            self._machine.close()

    def pool(self, name: str, **options: Unpack[PoolOptions]) -> Pool:
        """A pool within this process, as `Cluster.pool`; `spill=True` keeps objects in the folder.

        All that ask for the same name share one; only the first says how it is to be.
        """
        if options.get("spill") is True:
            options["spill"] = self.folder / "pools" / pool_name(name)
        return Pool(self._parts.share(name, **options))


def open(folder: str | Path, *, timeout: float = TIMEOUT) -> EmbeddedCluster:  # noqa: A001
    """Opens the queues in a folder, made when missing; waits while another process has it open.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         _ = cluster.fifo("orders").put(b"one")
    ...     with snowmelt.open(folder) as cluster:
    ...         cluster.queues(), cluster.fifo("orders").get().body
    (['orders'], b'one')
    """
    return EmbeddedCluster(Path(folder), checked(timeout))


def open_store(folder: Path, timeout: float) -> Store:
    """The store in a folder, waited for while another process has it."""
    end = monotonic() + timeout
    while True:
        try:
            return Store.open(folder)
        except StoreBusy:
            if monotonic() >= end:
                raise
            sleep(_TRY_AGAIN)


def member_of(folder: Path, store: Store) -> Member:
    """This node as it begins once more: the folder's own birth, and a start above all before."""
    stamp = read_stamp(folder)
    assert stamp is not None, "an open store is stamped"
    start = _counted(store, OPENINGS, time_ns())
    return Member(ME, HERE, birth=int.from_bytes(stamp.identity, "big"), start=start)


def epoch_of(store: Store) -> int:
    """The number of this node's view of itself alone: each opening has a new one, above all before.

    Positions of a priority queue begin above those of earlier epochs, and there is room for some
    millions. So where the count was damaged it goes on from the hours since 1970.
    """
    return _counted(store, EPOCHS, time_ns() // (3600 * SECOND))


def _counted(store: Store, key: bytes, above: int) -> int:
    """One more than the last time, on the disk; or a number above any that there was."""
    (found,) = store.load([key])
    match found:
        case Record(_, value):
            count = int.from_bytes(value, "big") + 1
        case Missing():
            count = 1
        case Damaged():
            count = above
    (failure,) = store.commit([(Write(key, count.to_bytes(8, "big")),)])
    if failure is not None:
        raise failure
    return count
