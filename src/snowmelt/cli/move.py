"""`snowmelt move`: what waits in one queue goes into another, each item once, in its order.

1. Each step takes items under a short lease. So what a killed move had in hand is back soon, at its
   place, and before what comes behind it.
2. One that begins waits for that, as long as such a lease may last.
3. The first signal ends it after the step that is under way: then nothing is in hand. The second
   ends it at once.
"""

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from snowmelt.cli.backup import bar
from snowmelt.cli.options import HERE, PlaceOptions
from snowmelt.cli.queue_show import so_many
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.queue.consumers import ConsumerOverview
from snowmelt.core.errors import AccessDenied, BadOption, Empty, NotEmpty
from snowmelt.core.instant import SECOND
from snowmelt.protocols.queue.api.calls import COMMITTED_MAX, QueueStatus
from snowmelt.runtime.signals import BorrowedSignals

Queue = Fifo | PriorityQueue
AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 16 << 20
IDLE: Final = 1.0
LAST_IDLE: Final = 0.2
"""So many seconds nothing comes, once nothing is put any more."""
LEASE: Final = 10.0
"""Of a step; of several partitions a lease lasts as their queue says."""
MOMENT: Final = 0.2
"""So many seconds pass until a signal is heard, or what came, or came back, is seen."""
PROGRAM: Final = "snowmelt-move"
STOPPED: Final = 130


def move(
    old: Annotated[str, typer.Argument(help="The queue that they are in.")],
    new: Annotated[str, typer.Argument(help="The queue they go into; create it first.")],
    idle: Annotated[float, typer.Option(help="End after so many seconds without an item.")] = IDLE,
    delete: Annotated[
        bool, typer.Option("--delete", help="Then delete the old one; its users hear where to go.")
    ] = False,
    at: PlaceOptions = HERE,
) -> None:
    """Move what waits in a queue into another, while both go on. Each item is moved once.

    It says before who uses the old queue, and what they have to do.
    """
    if old == new:
        raise BadOption("new", new, f"another queue than {old}")
    if not 0 <= idle <= 86_400:
        raise BadOption("--idle", idle, "0 to 86400 seconds")
    with at.open() as cluster:
        source = cluster.queue(old, timeout=at.timeout)
        target = cluster.queue(new, timeout=at.timeout)
        was = source.stats(timeout=at.timeout)
        goes = target.stats(timeout=at.timeout)  # it is there: a step would make a fifo of a typo
        if was.paused:
            raise BadOption("queue", old, f"one that is not paused: snowmelt resume {old}")
        for line in _users(source, new, at.timeout):
            print(line, file=sys.stderr)
        at_once = _at_once(was, goes.settings.partitions)
        move = _Move(cluster, source, target, at_once, at.timeout)
        with BorrowedSignals(move.stop):
            move.wait_for_earlier(was)
            with bar(f"{old} to {new}") as progress:
                for count in move.emptied(idle) if delete else move.until(idle):
                    progress(count, max(count, was.ready))
    print(f"{so_many(move.count)} of {old} moved to {new}")
    if move.stopped:
        print("stopped, with nothing in hand: run it again for the rest", file=sys.stderr)
        raise typer.Exit(STOPPED)
    if delete:
        print(f"{old} is deleted: who uses that name hears that {new} is in its place")


def _at_once(was: QueueStatus, partitions: int) -> int:
    """How many items a step takes.

    Into several partitions there are several steps for each, since one puts what has no key into
    one of them. And with more partitions than a step may have, it takes few items.
    """
    if was.settings.partitions + partitions > COMMITTED_MAX:
        return COMMITTED_MAX // 2
    return AT_ONCE if partitions == 1 else min(AT_ONCE, max(50, was.ready // (8 * partitions)))


class _Move:
    """Items on their way from one queue into another."""

    def __init__(
        self,
        cluster: Cluster | EmbeddedCluster,
        source: Queue,
        target: Queue,
        at_once: int,
        timeout: float,
    ) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self._at_once = at_once
        self._timeout = timeout
        self._lease: float | None = None
        self.count = 0
        """How many are there."""
        self.stopped = False

    def stop(self, _: int) -> None:
        """A signal came (rule 3)."""
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True

    def wait_for_earlier(self, was: QueueStatus) -> None:
        """Waits until what an earlier move had in hand is back (rule 2)."""
        alone = was.settings.partitions == 1
        self._lease = LEASE if alone else None
        most = LEASE if alone else was.settings.lease / SECOND
        begin, (count, whose) = time.monotonic(), self._earlier()
        if not count:
            return
        text = f"{so_many(count)} of {self._source.name}"
        print(f"waits for {text} to come back, {most:g} s at most: {whose}", file=sys.stderr)
        with bar(f"waits for {text}") as progress:
            while count and not self.stopped:
                spent = time.monotonic() - begin
                if spent > most + 5 * MOMENT:
                    print("they are not back: what comes back late comes last", file=sys.stderr)
                    return
                progress(min(int(spent), int(most)), int(most))
                time.sleep(MOMENT)
                count, _ = self._earlier()

    def _earlier(self) -> tuple[int, str]:
        """How many items earlier moves have in hand, or may have; and who they are."""
        source = self._source
        try:
            every = source.consumers(timeout=self._timeout)
        except AccessDenied:
            count = source.stats(timeout=self._timeout).leased
            return count, "others have them, perhaps a move that was killed"
        some = [one for one in every if one.program == PROGRAM and one.items]
        named = " and ".join([f"process {one.pid} on {one.host}" for one in some])
        return sum([one.items for one in some]), f"an earlier move had them, {named}"

    def until(self, idle: float) -> Iterator[int]:
        """Moves until nothing came for so long; how many so far, after each step."""
        while self._moved(idle):
            yield self.count

    def emptied(self, idle: float) -> Iterator[int]:
        """The same, and deletes the old one. Once it is nearly empty new puts wait for that."""
        while self._moved(idle) == self._at_once:
            yield self.count
        last = time.monotonic()
        while not self.stopped:
            self._source.pause(moving_to=self._target.name, timeout=self._timeout)
            if self._moved(LAST_IDLE):
                last = time.monotonic()
                yield self.count
                continue
            self._check_schedules()
            try:
                self._cluster.delete(
                    self._source.name, moved_to=self._target.name, timeout=self._timeout
                )
            except NotEmpty:  # what is in others' hands may end, or come back
                if time.monotonic() - last > self._timeout:
                    raise
            else:
                self.stopped = False  # a signal came too late
                return

    def _check_schedules(self) -> None:
        old, new = self._source.name, self._target.name
        if schedules := self._source.schedules(timeout=self._timeout):
            named = ", ".join([one.name for one in schedules])
            raise NotEmpty(
                f"{old!r} has schedules ({named}): make them for {new}, remove them here (snowmelt "
                f"unschedule {old} NAME), and run this again"
            )

    def _moved(self, idle: float) -> int:
        """How many in one step; none when nothing came in the time, or a signal did."""
        end = time.monotonic() + idle
        while not self.stopped:
            left = end - time.monotonic()
            count = self._step()
            if count or left <= 0:
                return count
            time.sleep(min(MOMENT, left))  # a get that waits has no time for a busy node's answer
        return 0

    def _step(self) -> int:
        source, target = self._source, self._target
        urgent = isinstance(source, PriorityQueue) and isinstance(target, PriorityQueue)
        try:
            with self._cluster.step(timeout=self._timeout) as step:
                some = step.get_many(
                    source,
                    self._at_once,
                    bytes_max=BYTES_AT_ONCE,
                    timeout=0,
                    lease=self._lease,
                )
                for item in some:
                    priority = item.priority if urgent else None
                    step.put(
                        target, item.body, priority=priority, key=item.key, headers=item.headers
                    )
        except Empty:
            return 0
        self.count += len(some)
        return len(some)


def _users(source: Queue, new: str, timeout: float) -> Iterator[str]:
    """Who uses the old queue, and what becomes of them, a line each."""
    old = source.name
    consumers: list[ConsumerOverview] = []
    try:
        consumers = source.consumers(timeout=timeout)
    except AccessDenied:
        yield f"who uses {old} is told to an admin alone: snowmelt consumers {old}"
    for one in consumers:
        who = f"{one.program} (process {one.pid} on {one.host})"
        if one.items and one.program != PROGRAM:
            yield f"{who} has {one.items} of {old}: they stay its own, and go back to {old}"
        if one.gets_waiting:
            yield f"{who} waits at {old} and takes what comes first: start it on {new}, too"
        if one.puts_waiting:
            yield f"{who} puts into {old}: have it put into {new}, and run this again"
    for group in source.groups(timeout=timeout):
        held = group.given - group.done
        yield (
            f"group {group.name} holds {held} of {old}, which stay there: let its program end them."
            f" A stream of Spark begins at {new} with a new checkpoint, once that is so"
        )
