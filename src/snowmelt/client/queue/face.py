# Made of face_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""What a queue with a leader is asked for as a whole, of whatever kind; blocking."""

from collections.abc import Iterable
from typing import Any, Self, TypeVar, Unpack

from snowmelt.client.coalescing.joint import CallerRequest
from snowmelt.client.coalescing.joint_puts import Puts
from snowmelt.client.coalescing.threads import ThreadCoalescer
from snowmelt.client.connection.forking import Own
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, Steps, run
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.steps import BYTES_HIGHEST, ITEMS_HIGHEST, checked_count
from snowmelt.client.leases.taking import LeasingQueue
from snowmelt.client.queue.bodies import NOT_UNIQUE, as_unique
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.client.queue.consumers import ConsumerOverview, consumers
from snowmelt.client.queue.group_steps import (
    BEGINNING,
    EVERYTHING,
    GroupBodies,
    GroupRange,
    GroupSteps,
    Mark,
    group_name,
    groups,
    read,
    survey,
)
from snowmelt.client.queue.one_item import (
    DROPPED,
    ItemOverview,
    ItemTrace,
    change,
    checked_fate,
    look_at,
    put_again,
    read_one,
    trace,
)
from snowmelt.client.queue.options import Key, QueueOptions
from snowmelt.client.queue.schedules import (
    ScheduleOptions,
    ScheduleOverview,
    schedule,
    schedules,
    unschedule,
    what_of,
)
from snowmelt.client.queue.staging_steps import plan, publish
from snowmelt.client.queue.timetables import timetable
from snowmelt.client.tracing import UNTRACED, Tracing
from snowmelt.core.interval import Interval, Position
from snowmelt.protocols.queue.api.calls import (
    GroupStatus,
    Located,
    Planned,
    QueueStatus,
    Receipt,
    Share,
    Span,
)

S = TypeVar("S", bound=FifoSteps)


class Group:
    """One group's part of a queue. `queue.group(name)` gives it.

    What a group is given has no time-out: it is the group's until it says that it is past it, or
    until `release`. Two groups of a queue share its items; each item goes to one of them.

    >>> import snowmelt, tempfile
    >>> from snowmelt.client.leases.delivered import part_bodies
    >>> from snowmelt.client.queue.group_steps import BEGINNING
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         _ = orders.put_many([b"one", b"two", b"three"])
    ...         loaders = orders.group("loaders")
    ...         first = loaders.advance(items_max=2)
    ...         located = loaders.locate(BEGINNING, first.end)
    ...         reading = orders.read(located.spans)
    ...         print([body for part in reading.parts for body in part_bodies(part)])
    ...         second = loaders.advance(first.end)  # done with the first two
    ...         again = loaders.advance(second.end)
    ...         print(first.end.count, second.end.count, again.end == second.end)
    [b'one', b'two']
    2 3 True
    """

    __reduce__ = stays("send the names of the queue and of the group, and take it there")

    def __init__(self, port: Port, steps: GroupSteps) -> None:
        self._port = port
        self._steps = steps

    def __repr__(self) -> str:
        return f"Group({self.name!r})"

    @property
    def name(self) -> str:
        """The name that the group's readers share."""
        return self._steps.name

    def advance(
        self,
        done: Mark = BEGINNING,
        *,
        items_max: int = EVERYTHING,
        bytes_max: int = EVERYTHING,
        below: Iterable[int] = (),
        timeout: float = TIMEOUT,
    ) -> GroupRange:
        """Says that all up to `done` is done with, for ever, and asks what comes next.

        `below` are `stats().bounds`, to be given only what was there then, by priority.
        What was given before and is not done is given again, limits or not. Raises `LeaseLost`
        when the group was released or begun anew by another, and `GroupHeld` when the group is
        done with more than `done`, or without a mark when it has begun to read.
        """
        steps = self._steps.advance(done, items_max, bytes_max, tuple(below), timeout)
        return run(self._port, steps)

    def locate(self, start: Mark, end: Mark, *, timeout: float = TIMEOUT) -> Located:
        """Where the items between two marks lie: the same ones, whenever it is asked."""
        return run(self._port, self._steps.locate(start, end, timeout))

    def release(self, *, timeout: float = TIMEOUT) -> int:
        """Forgets the group; what it holds goes back to its positions. Returns how many."""
        return run(self._port, self._steps.release(timeout))


class Queue(LeasingQueue[S]):
    """A queue, but for how items come in."""

    def __init__(
        self, port: Port, steps: S, codec: ValueCodec = PLAIN, tracing: Tracing = UNTRACED
    ) -> None:
        super().__init__(port, steps, codec, tracing)
        self._puts = ThreadCoalescer(self._port, Puts(steps.put))

    def _put_one(
        self, one: CallerRequest, sequence: int | None, unique: Key | None, unique_for: float
    ) -> Position:
        """Puts an item, with others' unless a number or a uniqueness key names its call."""
        own = NOT_UNIQUE
        if unique is not None or unique_for:
            own = as_unique(unique, unique_for)
        if own.key or sequence is not None or self._steps.producer.named:
            put = self._steps.put([one.what], one.wait, sequence, own)
            return Position((run(self._port, put))[0])
        return Position(self._puts.ask(one))

    # --- for groups -------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        """A group, which takes items for good. They are given again until the group is past them.

        This is for programs that must do everything exactly once, and for Spark.
        """
        own = Own(self._port, f"this group of {self.name}", "take a group in this one")
        return Group(own, GroupSteps(self._steps, group_name(name)))

    def groups(self, *, timeout: float = TIMEOUT) -> list[GroupStatus]:
        """All groups of the queue, how far each is, and when it was last heard of."""
        return run(self._port, groups(self._steps, timeout))

    def survey(
        self, start: int = 0, *, items_max: int = ITEMS_HIGHEST, timeout: float = TIMEOUT
    ) -> Located:
        """Where the items lie that wait from a position on; takes nothing."""
        checked_count("items_max", items_max, ITEMS_HIGHEST)
        return run(self._port, survey(self._steps, start, items_max, timeout))

    def read(self, spans: Iterable[Span], *, bytes_max: int = BYTES_HIGHEST) -> GroupBodies:
        """The bodies of located spans, each from a node that keeps it; at once, in memory."""
        checked_count("bytes_max", bytes_max, BYTES_HIGHEST)
        return run(self._port, self._read(spans, bytes_max))

    def _read(self, spans: Iterable[Span], bytes_max: int) -> Steps[GroupBodies]:
        return read(self.name, spans, bytes_max)

    # --- what was staged --------------------------------------------------------------------------

    def publish(
        self,
        receipts: Iterable[Receipt],
        *,
        sequence: int | None = None,
        digest: int = 0,
        timeout: float = TIMEOUT,
    ) -> tuple[Interval, ...]:
        """Puts what was staged at the tail, in the order of the receipts, all in one step.

        Returns where it is, as `put_many` does; with priorities, each has its own tail.

        With a named producer and a `sequence` number that was used, nothing is put. The call
        returns where the earlier ones went; an empty interval when that is no longer remembered.
        `digest` is a number that you make of what the items are: with another one than before,
        `AlreadyPublished` is raised.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         orders = cluster.fifo("orders", producer="loader")
        ...         receipts = orders.stage([b"one"]) + orders.stage([b"two", b"three"])
        ...         orders.publish(receipts, sequence=1)
        ...         orders.publish(receipts, sequence=1)
        ...         status = orders.stats()
        ...         status.ready
        (Interval(start=0, stop=3),)
        (Interval(start=0, stop=3),)
        3
        """
        producer = self._steps.producer
        steps = publish(self._steps, producer, receipts, sequence, timeout, digest)
        return run(self._port, steps)

    def plan(
        self, shares: Iterable[Share], *, sequence: int, digest: int = 0, timeout: float = TIMEOUT
    ) -> Planned:
        """Writes down here what is to be published into several queues, under one number.

        What was written down first stands, and is returned: publish that, each share in its queue,
        and then nothing in this one, which ends the plan. So all of it is published once, whichever
        program ends it.
        """
        steps = plan(self._steps, self._steps.producer, shares, sequence, timeout, digest)
        return run(self._port, steps)

    def parts(self, *, timeout: float = TIMEOUT) -> list[Self]:
        """Its partitions, each as a queue by itself; one that has none is its only one.

        That is for what each has of its own: groups, surveys, and what is staged and published.
        A program that gets from one of them alone has the order of that one.
        """
        steps = run(self._port, self._steps.partitions(timeout))
        return [type(self)(self._port, one, self._codec, self.tracing) for one in steps]

    # --- what is put again and again --------------------------------------------------------------

    def schedule(
        self,
        name: str,
        body: Any,
        *,
        every: str | float,
        zone: str = "UTC",
        priority: float | None = None,
        timeout: float = TIMEOUT,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleOverview:
        """Puts an item again and again, from the cluster: no program has to run for it.

        `every` is a cron expression (`snowmelt[cron]` reads it), by the clock of the time zone, or
        a time: `"30s"`, `"5m"`, `"2h"`, `"1d"`, or seconds. Each moment is fired once, whoever
        dies. What was missed since no node was there is made up for by one item, or, with
        `missed="skip"`, left out. Saying the same again changes nothing; another `every` or body
        alters the schedule. Its items may have a `key`, `headers`, a `delay` and a `priority`.

        An item says its schedule and its moment in the headers `schedule` and `scheduled-at`.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         jobs = cluster.fifo("jobs")
        ...         made = jobs.schedule("sweep", b"all", every="15m")
        ...         [one.name for one in jobs.schedules()], made.fired
        ...         jobs.unschedule("sweep"), jobs.unschedule("sweep")
        (['sweep'], 0)
        (True, False)
        """
        what = what_of(self._codec.body(body), timetable(every, zone), **options)
        return run(self._port, schedule(self._steps, name, what, priority, timeout))

    def schedules(self, *, timeout: float = TIMEOUT) -> list[ScheduleOverview]:
        """The schedules of the queue, by name: when each fires next, and when it did last."""
        return run(self._port, schedules(self._steps, timeout))

    def unschedule(self, name: str, *, timeout: float = TIMEOUT) -> bool:
        """Removes a schedule, if there is one; what it has put stays in the queue."""
        return run(self._port, unschedule(self._steps, name, timeout))

    # --- the queue as a whole ---------------------------------------------------------------------

    def create(self, *, timeout: float = TIMEOUT) -> None:
        """Makes the queue, if it is not there; the first put would do as much.

        Raises `QueueExists` if it is there with other settings than those it was asked for with.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         cluster.fifo("orders", lease=10).create()
        ...         cluster.queues()
        ['orders']
        """
        run(self._port, self._steps.create(timeout))

    def stats(self, *, timeout: float = TIMEOUT) -> QueueStatus:
        """How the queue is: how many items wait, are leased, delayed, dead, and more."""
        return run(self._port, self._steps.stats(timeout))

    def consumers(self, *, timeout: float = TIMEOUT) -> list[ConsumerOverview]:
        """The programs that hold items of it or wait: which, where, and how many items.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         orders = cluster.fifo("orders")
        ...         _ = orders.put_many([b"one", b"two"])
        ...         items = orders.get_many(2)
        ...         [(one.items, one.pid > 0) for one in orders.consumers()]
        [(2, True)]
        """
        return run(self._port, consumers(self._steps, timeout))

    def item(
        self, position: int, *, priority: float | None = None, timeout: float = TIMEOUT
    ) -> ItemOverview:
        """How one item is, wherever it is: ready, delayed, leased and by whom, or dead.

        `priority` is that of the item, where priorities are numbered: positions are of each.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         orders = cluster.fifo("orders")
        ...         position = orders.put(b"one")
        ...         item = orders.get()
        ...         print((orders.item(position)).standing)
        ...         orders.change_item(position, "dropped")
        ...         print((orders.item(position)).standing)
        leased
        True
        ended
        """
        return run(self._port, look_at(self._steps, position, priority, Wait(timeout)))

    def trace(
        self, position: int, *, priority: float | None = None, timeout: float = TIMEOUT
    ) -> ItemTrace:
        """The life of one item, as far as there are records of it: puts, leases, failures.

        The leader of a queue with followers has the last thousands of its steps at hand; of what
        was before, it knows less, and says so (`unknown`). Of several partitions, the one is asked
        about that has the item.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         orders = cluster.fifo("orders")
        ...         life = orders.trace(orders.put(b"one"))
        ...         print(life.now.standing, *[one.kind for one in life.entries])
        ready put
        """
        return run(self._port, trace(self._steps, position, priority, Wait(timeout)))

    def change_item(
        self,
        position: int,
        to: "Queue[Any] | str",
        *,
        priority: float | None = None,
        timeout: float = TIMEOUT,
    ) -> bool:
        """Has one item be "dropped" or "ready", or in another queue; False for nothing to do.

        "ready" ends its lease or its delay, or it is dead no more. Who has it under a lease learns
        of it as of a lease that was lost. What a group has is left alone.

        A queue, of another cluster too, gets the item before it is dropped here: when this fails in
        between, it is in both. So it is where its consumer acknowledges it meanwhile. Its priority
        goes along where both have such; its failures do not.
        """
        wait = Wait(timeout)
        if not isinstance(to, Queue):
            some = change(self._steps, position, priority, wait, drop=checked_fate(to) == DROPPED)
            return run(self._port, some)
        seen = run(self._port, read_one(self._steps, position, priority, wait))
        there, steps = to._port, to._steps  # noqa: SLF001
        run(there, put_again(steps, seen, wait, self._steps))
        run(self._port, change(self._steps, position, priority, wait, drop=True))
        return True

    def alter(self, *, timeout: float = TIMEOUT, **options: Unpack[QueueOptions]) -> None:
        """Alters some settings of the queue while it runs; returns once they are so.

        They are named as in `cluster.fifo`; what is not named stays. A put that waits comes in when
        the bounds let it; what is more than a smaller bound stays in the queue. What is leased is
        leased for as long as it was, and what is dead stays dead. Programs that have the queue open
        go on; opening it with other settings than it has by now raises `QueueExists`.

        >>> import snowmelt, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with snowmelt.open(folder) as cluster:
        ...         orders = cluster.fifo("orders", max_items=2)
        ...         _ = orders.put_many([b"one", b"two"])
        ...         orders.alter(max_items=1000, lease=60)
        ...         _ = orders.put(b"three", timeout=0)
        ...         (orders.stats()).settings.items_max
        1000
        """
        run(self._port, self._steps.alter(options, timeout))

    def pause(self, *, moving_to: str | None = None, timeout: float = TIMEOUT) -> None:
        """Stops the handing out of items; puts are taken all the time.

        With `moving_to`, the queue into which its items go, it is the other way round: items are
        handed out, and new puts wait, as at a full queue. That lasts ten seconds, or until its
        leader changes. So `snowmelt move --delete` empties a queue into which programs put.
        """
        run(self._port, self._steps.pause(True, timeout, moving_to))

    def resume(self, *, timeout: float = TIMEOUT) -> None:
        """Lets the handing out go on."""
        run(self._port, self._steps.pause(False, timeout))

    def redrive(self, *, per_second: int = 0, timeout: float = TIMEOUT) -> int:
        """Brings dead items back to their positions, all at once or so many a second."""
        return run(self._port, self._steps.redrive(per_second, timeout))
