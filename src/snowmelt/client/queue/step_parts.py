"""What a program takes and puts in one step, gathered until its end, and how that is told.

1. Nothing is sent before the end: until then nothing of it can be in a queue.
2. At the end what is put is staged in its queues, and what was taken from all sources but one is
   promised, side by side. Then the one left decides (`queue/state/transactions.py`). So a step
   that fails on the way there has put nothing, and acknowledged nothing.
3. Once it is decided the nodes do the rest, whether or not this program lives. It waits for that
   until its time is over.
4. One that took from one lease, and puts nothing, is an acknowledgement like any other.
5. It ends once. What another thread adds meanwhile is in it, or is refused. It is its process's:
   a child of a fork ends nothing.
6. A call that was sent in vain may still be on its way when its caller hears of no room, or hears
   nothing. So the step is given up first: then it is known that it never happens.
"""

from collections.abc import Iterable, Iterator, Mapping
from threading import RLock
from typing import Any, ClassVar, Final, Protocol, Self, cast

import msgspec
from msgspec.structs import replace

from snowmelt.client.coalescing.joint_puts import PutRequest
from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.session import checked
from snowmelt.client.connection.steps import Sleep, Steps, all_of, at_once
from snowmelt.client.connection.waits import LATE, Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseSteps, LeaseUpdate
from snowmelt.client.leases.views import ItemsView, ItemView
from snowmelt.client.queue.bodies import CALL
from snowmelt.client.queue.open_once import root
from snowmelt.client.queue.options import Key
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import (
    BadOption,
    Full,
    LeaseLost,
    NotStaged,
    OutcomeUnknown,
    SnowmeltError,
    TooLarge,
    Unreachable,
)
from snowmelt.core.instant import SECOND, Duration, seconds
from snowmelt.core.interval import Interval, merged
from snowmelt.protocols.queue.api.calls import (
    COMMITTED_MAX,
    Commit,
    Committed,
    Promise,
    Put,
    Receipt,
    Settle,
    Share,
)
from snowmelt.protocols.queue.api.settings import HOLD_LONGEST

ITEMS_MAX: Final = 100_000
BYTES_MAX: Final = 64 << 20
HOLD: Final = 60.0
"""So many seconds, and those of the step itself, later a queue asks what became of it."""
GIVING_UP: Final = 1.0
"""So many seconds of its time, or a fifth of it, are kept for that (rule 6)."""
PAUSE: Final = 0.2
_OF_PARENT: Final = "this step", "begin one in this process"
_ITEM: Final = 100
"""What an item weighs besides its bytes."""


class Acknowledger(Protocol):
    """Who tells a queue about a lease."""

    @property
    def steps(self) -> LeaseSteps:
        """The queue."""

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """These were acknowledged in another way."""


class Transaction(msgspec.Struct, frozen=True):
    """Under which name something is staged, and for how long."""

    home: str
    producer: str
    number: int
    hold: Duration


Taken = tuple[Acknowledger, LeasedItems, Interval | None]


class StepParts:
    """What one step has so far."""

    def __init__(self) -> None:
        self.over = ""
        """Why nothing can be added any more."""
        self._queues: dict[str, FifoSteps] = {}
        """By name: a program may have a queue in several hands."""
        self._taken: dict[str, dict[int, list[Taken]]] = {}
        """By queues, and by the tokens of their leases."""
        self._puts: dict[str, list[PutRequest]] = {}
        self._items = 0
        self._bytes = 0
        self._adding = RLock()  # a signal may come while it is held
        self._origin = Origin()

    def take(self, sender: Acknowledger, delivered: LeasedItems, where: Interval | None) -> None:
        """These are acknowledged with it."""
        steps = sender.steps
        if not isinstance(steps, FifoSteps):
            raise BadOption("item", steps.name, "an item of a queue")
        delivered.check_own(where)
        if not delivered.open_in(where):
            raise LeaseLost(f"what was taken from {steps.name} is settled already, or lost")
        self._origin.check(*_OF_PARENT)
        with self._adding:
            self._check(steps)
            leases = self._taken.setdefault(steps.name, {})
            if len(leases) >= COMMITTED_MAX and delivered.token not in leases:
                raise TooLarge(f"a step has up to {COMMITTED_MAX} leases of a queue: end it sooner")
            leases.setdefault(delivered.token, []).append((sender, delivered, where))

    def put(
        self,
        steps: FifoSteps,
        body: Buffer,
        priority: float | None,
        key: Key | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
    ) -> None:
        """This is put with it."""
        one: PutRequest = steps.one(body, priority, headers, delay, 0, key).what
        size = len(one.body) + len(one.headers) + _ITEM
        self._origin.check(*_OF_PARENT)
        with self._adding:
            self._check(steps)
            if self._items >= ITEMS_MAX or self._bytes + size > BYTES_MAX:
                most = f"{ITEMS_MAX} items and {BYTES_MAX >> 20} MiB"
                raise TooLarge(f"a step puts up to {most}: end it sooner")
            self._items, self._bytes = self._items + 1, self._bytes + size
            self._puts.setdefault(steps.name, []).append(one)

    def end(self, why: str) -> None:
        """Nothing is added from now on; raises `BadOption` where it has ended (rule 5)."""
        self._origin.check(*_OF_PARENT)
        with self._adding:
            self._check_open()
            self.over = why

    def _check_open(self) -> None:
        if self.over:
            raise BadOption("step", self.over, "one that has not ended: begin another")

    def _check(self, steps: FifoSteps) -> None:
        self._check_open()
        self._queues.setdefault(steps.name, steps)
        if len(self._queues) > COMMITTED_MAX:
            raise TooLarge(f"a step has up to {COMMITTED_MAX} queues: end it sooner")

    # --- its end ----------------------------------------------------------------------------------

    def commit(self, timeout: float, hold: float = HOLD) -> Steps[int]:
        """All of it happens, or raises; in how many queues its part is not done yet (rule 3)."""
        self.end("one that has ended")
        wait = Wait(timeout)
        sources = self._sources()
        targets = list[tuple[FifoSteps, list[PutRequest]]]()
        for name, puts in self._puts.items():
            targets += yield from self._queues[name].homes_of(puts, wait)
        if not (sources or targets):
            return 0
        if len(sources) + len(targets) > COMMITTED_MAX:
            raise TooLarge(f"a step has up to {COMMITTED_MAX} queues and partitions: end it sooner")
        homes = [*sources.values(), *targets]
        home = homes[0][0]
        _, own = sources.pop(home.name, (home, []))
        if not (targets or sources) and len(own) == 1:  # rule 4
            yield from home.ask_about(own[0], wait.left)
            self._noted()
            return 0
        producer = home.producer.unnamed
        number = producer.number(None)
        held = min(hold + wait.left, HOLD_LONGEST / SECOND)
        of = Transaction(home.name, producer.name, number, seconds(held))
        parts = [_staged(steps, puts, of, wait) for steps, puts in targets]
        parts += [_promised(steps, tuple(some), of, wait) for steps, some in sources.values()]
        shares = tuple([one for one in all_of((yield from at_once(parts))) if one is not None])
        commit = Commit(home.name, producer.name, number, tuple(own), shares, tuple(sources))
        left = yield from _decided(home, commit, wait)
        self._noted()
        return left

    def _sources(self) -> dict[str, tuple[FifoSteps, list[Settle]]]:
        """What was taken and did not go back meanwhile, by queues or their partitions."""
        found: dict[str, tuple[FifoSteps, list[Settle]]] = {}
        for leases in self._taken.values():
            for token, some in leases.items():
                done, whole = list[Interval](), some[0][0].steps  # the hand that knows this lease
                assert isinstance(whole, FifoSteps), "no other was taken"
                for _, delivered, where in some:
                    delivered.check_process()
                    done += delivered.open_in(where)
                if done:
                    word = LeaseUpdate(token, done=tuple(merged(done)))
                    parts = whole.parts
                    for one, own in [(whole, word)] if parts is None else parts.each(word):
                        steps = cast("FifoSteps", one)
                        found.setdefault(steps.name, (steps, []))[1].append(steps.settle_of(own))
        return found

    def _noted(self) -> None:
        """What was taken is acknowledged."""
        for leases in self._taken.values():
            for some in leases.values():
                for sender, delivered, where in some:
                    sender.ended(delivered, delivered.open_in(where))


def _decided(home: FifoSteps, commit: Commit, wait: Wait) -> Steps[int]:
    """In how many queues its part is not done yet. What may not be decided is given up (rule 6)."""
    own = Wait(max(wait.left - min(GIVING_UP, wait.left / 5), LATE / SECOND))
    committed: Committed
    try:
        while True:
            ask = replace(commit, patience=min(own.patience, wait.patience))
            try:
                committed = yield from home.ask_about(ask, own.left)
            except Full:  # too many of its steps have parts that wait for room
                if own.over:
                    raise
                yield Sleep(PAUSE)
            else:
                return committed.left
    except (Full, OutcomeUnknown) as failed:
        try:
            ask = replace(commit, give_up=True)
            committed = yield from home.ask_about(ask, max(wait.left, LATE / SECOND))
        except NotStaged:
            if isinstance(failed, Full):
                raise failed from None
            raise Unreachable(f"{failed}; the step was given up: nothing of it happened") from None
        except SnowmeltError:
            raise OutcomeUnknown(f"it is not known whether the step happened: {failed}") from failed
    return committed.left


def _promised(
    steps: FifoSteps, settles: tuple[Settle, ...], of: Transaction, wait: Wait
) -> Steps[Share | None]:
    ask = Promise(steps.name, of.producer, of.number, of.home, settles)
    yield from steps.ask_about(ask, wait.left)
    return None


def _staged(
    steps: FifoSteps, some: list[PutRequest], of: Transaction, wait: Wait
) -> Steps[Share | None]:
    receipts = list[Receipt]()
    for alike in _calls(some):
        items, headers = yield from steps.gathered(alike, wait)
        put = Put(
            steps.name, of.producer, of.number, items.offsets, items.blob, headers,
            -alike[0].delay, hold=of.hold, runs=items.runs, keys=items.keys, home=of.home,
        )  # fmt: skip
        receipt: Receipt = yield from steps.ask_store(put, wait.left, len(items.blob))
        receipts.append(receipt)
    return Share(steps.name, tuple(receipts), 0)


def _calls(some: Iterable[PutRequest]) -> Iterator[list[PutRequest]]:
    """Items with one delay, as many as go in one call; in their order."""
    alike, size = list[PutRequest](), 0
    for one in some:
        weight = len(one.body) + len(one.headers)
        full = len(alike) >= CALL.items or size + weight > CALL.bytes
        if alike and (full or one.delay != alike[0].delay):
            yield alike
            alike, size = [], 0
        alike.append(one)
        size += weight
    if alike:
        yield alike


class StepView:
    """Gathers what is acknowledged and put."""

    _kind: ClassVar[Any]
    """Of the queues that it works with."""

    def __init__(self, port: object, timeout: float) -> None:
        self._root = root(port)
        self._timeout = checked(timeout)
        self._parts = StepParts()
        self._begun = False
        self.waiting = 0
        """Once it has ended: in how many queues its items will come in, but had no room, or no node
        was there, until its time was over."""

    def _begin(self) -> Self:
        if self._begun:
            raise BadOption("step", "one that was begun already", "each once: begin another")
        self._begun = True
        return self

    def ack(self, held: ItemView[Any] | ItemsView[Any]) -> None:
        """What was taken elsewhere is acknowledged with this step.

        If the step fails, it stays with whoever took it.
        """
        if not isinstance(held, ItemView | ItemsView):
            raise BadOption("item", held, "an Item or Items of a queue of this cluster")
        sender, delivered, where = held.leased
        if root(sender.port) is not self._root:
            raise BadOption("item", held, "one of a queue of the cluster whose step this is")
        self._parts.take(sender, delivered, where)

    def put(
        self,
        queue: Any,
        body: Any,
        *,
        priority: float | None = None,
        key: Key | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
    ) -> None:
        """Puts an item when the step ends, as the queue's own `put` would; nothing waits for that.

        Items of one queue come in one behind the other, in their order.
        """
        own = self._own(queue)
        written = own._codec.body(body)  # noqa: SLF001
        steps, tracing = own._steps, own.tracing  # noqa: SLF001
        with tracing.put(own.name, headers) as traced:
            self._parts.put(steps, written, priority, key, traced.headers, delay)

    def _own(self, queue: Any) -> Any:
        if not isinstance(queue, self._kind):
            allowed = "a queue of this cluster, as cluster.fifo(NAME) gives it"
            raise BadOption("queue", queue, allowed)
        if root(queue._port) is not self._root:  # noqa: SLF001
            raise BadOption("queue", queue, "one of the cluster whose step this is")
        return queue
