"""A cluster of one, inside the program that uses it: no server and no socket; one folder.

The queues' machines are the very ones that run on nodes. The caller drives them, in its own thread
and under one lock. It gives them the call, commits what they ask of the disk, and fires the timers
that are due. Then it waits, for the next timer or for another thread's step, until the answer is
there. Between calls nothing runs; what became due meanwhile is done by the next call, before it.
Only a fifo made with `flush=SECONDS` has a thread: what may linger must not wait for the next call.
And batons have one while one of them is held, as on any cluster: it renews what is held.

One process holds a folder at a time; another that opens it waits for its turn. Leases of the
process before are over when the next one opens.

Rules, for threads that are interrupted anywhere:

1. All of the machine, its timers, and the callers that wait, is touched in a `MachineLock`,
   which is done whole or not at all. A timer that was taken has fired by the end of it.
2. Nobody waits within a turn but for the disk. A waiting caller has a bell, and is woken in a turn.
3. A call is its caller's alone. One that is dropped, by whatever ended it, is looked for here, and
   is not there. A get leaves its queue then: in the next turn, before anything else happens there.
4. Batons and topics are a host of their own, begun when one is first asked for: they have beats,
   for which a program that only queues should not wake. What they have yet to save is saved on
   closing.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from time import monotonic, sleep, time_ns
from typing import Any, Final, Unpack
from weakref import ref

import msgspec

from snowmelt.client.baton.renewer import HoldRenewer
from snowmelt.client.connection.forking import Origin, watch
from snowmelt.client.connection.open_loops import end_loops
from snowmelt.client.connection.session import TIMEOUT, Session, checked, read_by_node
from snowmelt.client.connection.staying import stays
from snowmelt.client.embedded.batons import (
    FOR_BATONS,
    ME,
    SAVED,
    LocalCallers,
    machines_of_batons,
    of_batons,
)
from snowmelt.client.embedded.machine_lock import MachineLock
from snowmelt.client.pool.face import Pool
from snowmelt.client.pool.open_pools import OpenPools
from snowmelt.client.pool.options import PoolOptions
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.queues import Queues
from snowmelt.core import errors
from snowmelt.core.instant import SECOND, Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Halt, Requested, Started
from snowmelt.core.record import Damaged, Missing, Record, Write
from snowmelt.protocols import queue
from snowmelt.protocols.calling import (
    FIRST_WAIT,
    LONGEST_WAIT,
    Answer,
    AskAnother,
    Declined,
    Elsewhere,
    Gone,
)
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import View
from snowmelt.protocols.membership.view import Member
from snowmelt.protocols.pool.settings import pool_name
from snowmelt.protocols.queue.api.calls import CancelGet, Get, Opened
from snowmelt.runtime.bell import Bell
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.folders import OPENINGS, check_embedded, check_nobody_within
from snowmelt.runtime.running import EndWatcher
from snowmelt.runtime.steps import FOR_EVER, Steps
from snowmelt.store import Store
from snowmelt.store.folder import naming
from snowmelt.store.stamp import read_stamp
from snowmelt.wire.greeting import as_error

HERE: Final = Address("127.0.0.1", 1)  # nobody is ever called there
_TRY_AGAIN: Final = 0.05
_SHORTEST: Final = 0.000_001
_FEW: Final = 64
"""So many dropped calls are not worth looking for."""


class EmbeddedCall(msgspec.Struct, eq=False, weakref=True):
    """A call, and its answer once that is there."""

    operation: OperationId
    body: Any
    end: Instant
    again: Instant
    bell: Bell | None = None
    """Of the thread that waits for it, if one does."""
    answer: Any = None


class Machine(EndWatcher):
    """The queues' machines on a store, driven by the callers."""

    def __init__(self, folder: Path, store: Store) -> None:
        member = member_of(folder, store)
        self._store = store
        self._session = Session()
        machine = Family("fifo", queue.QueueNode(ME, Random(), alone=True), queue.MESSAGES)
        self._queues = self._running([machine])
        self._batons: Steps | None = None
        self.turn = MachineLock()
        """Of whoever drives it."""
        self._open: dict[int, ref[EmbeddedCall]] = {}
        self._many = _FEW
        self._dropped: deque[EmbeddedCall] = deque()
        """Gets whose callers were interrupted (rule 3)."""
        self._waiting: dict[
            int, ref[EmbeddedCall]
        ] = {}  # whose threads have looked and are to be woken
        self._failure = ""
        self._linger = Duration(0)  # the longest of the queues in use
        self._end = threading.Event()
        self._origin = Origin()
        self._flusher: threading.Thread | None = None
        watch(self)
        recovered = store.recover()
        self._view = View(cluster=1, epoch=1, coordinator=ME, members=(member,))
        self._of_batons = of_batons(recovered.records, recovered.damaged)
        with self.turn, self.turn.lock:
            self._queues.handle(Started(recovered.records, recovered.damaged, time_ns()))
            self._queues.handle(Announced(self._view))

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong.

        The time begins when it is this thread's turn: how long others compute is their affair.
        """
        del target, weight
        return self.call_as(self._session.name, body, timeout)

    def call_as(self, client: NodeId, body: Any, timeout: float) -> Any:
        """The same, by a client of this name, which may be reported as `gone`."""
        self._origin.check("this open folder", "one process has it: connect to a node, to share it")
        with self.turn, self.turn.lock:
            asked = self.begin(body, timeout, client)
            pause = self._left(asked)
        try:
            while pause:
                assert asked.bell is not None
                asked.bell.wait(pause)
                with self.turn, self.turn.lock:
                    pause = self._left(asked)
        except BaseException:
            self._dropped.append(asked)
            raise
        return self.outcome(asked)

    def leave(self, asked: EmbeddedCall) -> None:
        """In a turn: nobody waits any more for that, if it is a get (rule 3)."""
        get = asked.body
        if type(get) is not Get or self._failure:
            return
        client, number = asked.operation.client, asked.operation.number
        operation = OperationId(client, self._session.operation().number)
        self._queues.handle(Requested(operation, CancelGet(get.queue, number)))

    # --- one call, step by step -------------------------------------------------------------------

    def begin(self, body: Any, timeout: float, client: NodeId | None = None) -> EmbeddedCall:
        """In a turn: asks. Whoever does looks after it until it is due."""
        now, timeout, body = steady_now(), checked(timeout), read_by_node(body)
        if self._failure:
            raise errors.Closed(self._failure)
        patience = seconds(timeout) if timeout > 0 else Duration(0)
        operation = self._session.operation()
        if client is not None:
            operation = OperationId(client, operation.number)
        asked = EmbeddedCall(operation, body, later(now, patience), later(now, FIRST_WAIT))
        self._remember(asked)
        self.fire()
        self._of(body).handle(Requested(operation, body))
        return asked

    def due(self, asked: EmbeddedCall) -> bool:
        """In a turn: whether there is an outcome, if need be after all timers that are due."""
        if asked.answer is None and not self._failure:
            self.fire()
            self._ask_again(asked)
        return asked.answer is not None or bool(self._failure) or not seconds_until(asked.end)

    def _ask_again(self, asked: EmbeddedCall) -> None:
        """As any client does, now and then."""
        open_still = asked.answer is None and not self._failure and seconds_until(asked.end)
        if open_still and asked.again <= steady_now():
            asked.again = later(steady_now(), LONGEST_WAIT)
            self._of(asked.body).handle(Requested(asked.operation, asked.body))

    def pause(self, waiting: Iterable[EmbeddedCall]) -> float:
        """In a turn: for how long nothing is due."""
        instants = [min(one.end, one.again) for one in waiting]
        if not self._failure:  # what has failed fires no timer any more
            instants += [one.due for one in (self._queues, self._batons) if one is not None]
        return seconds_until(min(instants, default=FOR_EVER))

    def outcome(self, asked: EmbeddedCall) -> Any:
        """What came of it; raises what went wrong."""
        answer = asked.answer
        if answer is None:
            why = f": {self._failure}" if self._failure else " in the time given"
            raise errors.OutcomeUnknown(f"no answer came{why}")
        if type(answer) is Declined:
            raise as_error(answer.error, answer.text)
        if type(answer) is Elsewhere:
            raise errors.Unavailable("the embedded node takes itself for another")
        if type(answer) is AskAnother:
            raise errors.OutcomeUnknown("the embedded node takes itself for one that is cut off")
        return answer

    def _left(self, asked: EmbeddedCall) -> float:
        """For how long its thread waits for it now; 0 when it is due."""
        if self.due(asked):
            return 0.0
        if asked.bell is None:
            asked.bell = Bell()
        self._waiting[asked.operation.number] = ref(asked)
        return max(self.pause([asked]), _SHORTEST)

    def _remember(self, asked: EmbeddedCall) -> None:
        """Until it is answered, or dropped: rule 3."""
        if len(self._open) >= self._many:
            self._open = {number: one for number, one in self._open.items() if one() is not None}
            self._many = 2 * len(self._open) + _FEW
        self._open[asked.operation.number] = ref(asked)

    def _ring(self) -> None:
        """A waiting caller looks again: a timer may be due sooner than at its last look."""
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            asked = one()
            if asked is not None and asked.bell is not None:
                asked.bell.ring()

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
        with self.turn, self.turn.lock:
            try:
                if not self._failure:
                    # What lingers is flushed by timers: they are told that their time has come.
                    self._queues.expire(later(steady_now(), self._linger))
                    if self._batons is not None:  # rule 4
                        self._batons.expire(later(steady_now(), SAVED))
            finally:
                self._failure = self._failure or "this cluster is closed"
                self._ring()
                self._store.close()

    def check_idle(self) -> None:
        """Raises within its own step: no lock keeps a finalizer out."""
        if not self._origin.left:
            with self.turn, self.turn.lock:
                pass

    # --- driving the machine ----------------------------------------------------------------------

    def _running(self, families: list[Family]) -> Steps:
        return Steps(Host(ME, families), self._sent, self, self._store, steady_now)

    def fire(self) -> None:
        """In a turn: lets every timer that is due expire."""
        now = steady_now()
        while self._dropped and not self._failure:
            self.leave(self._dropped.popleft())
        for steps in (self._queues, self._batons):
            if steps is not None and not self._failure:
                steps.expire(now)

    def together(self) -> AbstractContextManager[None]:
        """In a turn: what calls ask of the queues' disk in this block is one flush."""
        return self._queues.together()

    def _of(self, body: Any) -> Steps:
        if type(body) not in FOR_BATONS:
            return self._queues
        if self._batons is None:  # rule 4
            self._batons = self._running(machines_of_batons(self._view))
            self._batons.handle(Started(*self._of_batons, time_ns()))
            self._batons.handle(Announced(self._view))
        return self._batons

    def gone(self, client: NodeId) -> None:
        """Nobody calls any more by this name: what it waits for, or holds, is given up."""
        if self._batons is not None and not self._origin.left:
            with self.turn, self.turn.lock:
                if not self._failure:
                    self._batons.handle(Announced(Gone(client)))

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
            with self.turn, self.turn.lock:
                self.fire()

    # --- what the machine says --------------------------------------------------------------------

    def _sent(self, target: NodeId, message: Any) -> None:
        """To a client; there is nobody else."""
        del target
        if type(message) is not Answer:
            return
        body = message.body
        if isinstance(body, Opened) and body.settings.linger > self._linger:
            self._flush_every(body.settings.linger)
        if self._waiting:
            self._ring()
        found = self._open.pop(message.number, None)
        asked = None if found is None else found()
        if asked is not None:
            asked.answer = body

    def halted(self, effect: Halt) -> None:
        """The disk has failed: each call says what became of it."""
        self._failure = effect.reason
        self._ring()

    def crashed(self, error: BaseException) -> None:
        """The disk is sound, this memory is not."""
        self._failure = f"its machine stopped ({error!r}); open the folder anew"
        self._ring()
        if isinstance(error, errors.MachineError):
            raise error
        if isinstance(error, Exception):
            raise errors.MachineCrashed(f"the embedded machine raised {error!r}") from error


class EmbeddedCluster(Queues):
    """Queues in a folder, made by `snowmelt.open`. Close it, or use it in a `with`.

    Threads may share it; one step of one of them runs at a time.
    """

    __reduce__ = stays("one process has a folder open; others connect to a node")

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder = folder
        self._parts = OpenPools()
        store = open_store(folder, timeout)
        try:
            self._machine = Machine(folder, store)
            self._callers = LocalCallers(self._machine)
            super().__init__(self._machine, HoldRenewer(self._callers))
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Ends the loops over its queues, and gives the folder back, so that others may open it."""
        self._machine.check_idle()
        try:
            end_loops(self._machine)
            self._parts.close()
        finally:
            self._renewer.lose()
            self._callers.close()
            self._machine.close()

    def pool(self, name: str, *, codec: str | None = None, **options: Unpack[PoolOptions]) -> Pool:
        """A pool within this process, as `Cluster.pool`; `spill=True` keeps objects in the folder.

        All that ask for the same name share one; only the first says how it is to be.
        """
        written = codec_of(codec)
        if options.get("spill") is True:
            options["spill"] = self.folder / "pools" / pool_name(name)
        return Pool(self._parts.share(name, **options), written)


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
    return EmbeddedCluster(folder_of(folder), checked(timeout))


def folder_of(path: str | Path) -> Path:
    """The folder that is meant; no name at all is a mistake, and not the folder one is in."""
    named = os.fspath(path)
    try:
        os.access(named, os.F_OK)  # it raises for what the system has no way to write
    except ValueError:
        named = ""
    if not named:
        raise errors.BadOption(
            "folder", path, 'the path of a folder; "." is the one this program is in'
        )
    if "://" in os.fsdecode(named):
        raise errors.BadOption(
            "folder", path, "the path of a folder; connect(url) is for a cluster"
        )
    return Path(path)


def open_store(folder: Path, timeout: float, pause: Callable[[float], object] = sleep) -> Store:
    """The store in a folder, waited for while another process has it, or until `pause` is true."""
    end = monotonic() + timeout
    with naming(folder):
        check_nobody_within(folder)
    while True:
        try:
            store = Store.open(folder)
            break
        except errors.StoreBusy:
            if monotonic() >= end:
                raise
            if pause(_TRY_AGAIN):
                raise errors.Closed("this cluster was closed before its folder was free") from None
    try:
        check_embedded(folder, store)
    except BaseException:
        store.close()
        raise
    return store


def member_of(folder: Path, store: Store) -> Member:
    """This node as it begins once more: the folder's own birth, and a start above all before."""
    stamp = read_stamp(folder)
    assert stamp is not None, "an open store is stamped"
    start = _opened(store)
    return Member(ME, HERE, birth=int.from_bytes(stamp.identity, "big"), start=start)


def _opened(store: Store) -> int:
    """How often it was, this time too, on the disk; or a number above any that there was."""
    (found,) = store.load([OPENINGS])
    match found:
        case Record(_, value):
            count = int.from_bytes(value, "big") + 1
        case Missing():
            count = 1
        case Damaged():
            count = time_ns()
    (failure,) = store.commit([(Write(OPENINGS, count.to_bytes(8, "big")),)])
    if failure is not None:
        raise failure
    return count
