"""What can be asked of a fifo, as steps (`connection.steps`): no socket, no thread, no wait.

A put has its number before it is first sent and keeps it through all retries, so it is put once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, Self, cast

from snowmelt.client.coalescing.joint import CallerRequest
from snowmelt.client.coalescing.joint_puts import PutRequest, Puts
from snowmelt.client.connection.steps import ProgressNote, Sleep, Steps
from snowmelt.client.connection.waits import ANSWER_SECONDS as ANSWER_SECONDS  # noqa: PLC0414 - staging takes it
from snowmelt.client.connection.waits import Wait, within
from snowmelt.client.fifo.granted import GrantedSteps, master_of, store_of
from snowmelt.client.leases.delivered import (
    PLACE_BITS,
    ItemSelection,
    LateRefusal,
    LeasedItems,
    position_of,
    runs,
    told_interval,
)
from snowmelt.client.leases.fetching import Fetching
from snowmelt.client.leases.steps import (
    AS_SET,
    BYTES_HIGHEST,
    LeaseOptions,
    LeaseReply,
    LeaseUpdate,
    Seen,
    ask_anybody,
    delay_of,
    portions,
    shown,
)
from snowmelt.client.leases.token import LeaseToken, secret_of
from snowmelt.client.parted.parts import GotPieces, PartitionedQueue, is_bounded, place_of
from snowmelt.client.queue.bodies import (
    CALL,
    NOT_UNIQUE,
    CallLimit,
    PutItems,
    Unique,
    labelled,
    packed_headers,
    parcel,
    parcels,
    together,
)
from snowmelt.client.queue.options import Key, QueueOptions, altered_options
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import (
    BadOption,
    LeaseLost,
    NoSuchQueue,
    QueueMoved,
    SnowmeltError,
    TooLarge,
)
from snowmelt.core.instant import SECOND, Duration, Instant, later
from snowmelt.core.interval import Interval, without
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.api.calls import (
    Alter,
    Changed,
    Describe,
    Get,
    ItemRun,
    Leased,
    Pause,
    Peek,
    Peeked,
    Purge,
    Put,
    PutDone,
    QueueStatus,
    Redrive,
    Settle,
    Settled,
)
from snowmelt.protocols.queue.api.labels import each_own
from snowmelt.protocols.queue.api.partition_names import part_names
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import ListQueues, QueueNames
from snowmelt.runtime.clock import steady_now

PUT_LONGEST: Final = 8 * 3600.0
"""For so long at most the nodes remember what became of a put's attempts."""
PEEK_BYTES: Final = 4 << 20
_WEIGHT_MAX: Final = 4 << 20
_MISSING_PAUSE: Final = 0.2
DAMAGED: Final = "no copy could be read"
_AWAY: Final = 0.2
"""So many seconds later it is asked for again what lies with nodes that are away."""


class FifoSteps(GrantedSteps):
    """One queue as one user knows it: its name, its grant, its producer."""

    # --- items in ---------------------------------------------------------------------------------

    def one(
        self,
        body: Buffer,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        key: Key | None = None,
    ) -> CallerRequest:
        """One item to be put."""
        if priority is not None:
            raise _without(self.name, priority)
        items = parcel(body)
        own = packed_headers(headers) if key is None else labelled(headers, key, items)
        one = PutRequest(items.blob, own, delay_of(delay))
        alike = one.delay, timeout, place_of(self.parts, self.since, key)
        return Puts.asked(one, time_of_put(timeout), alike)

    def put(
        self,
        some: Sequence[PutRequest],
        wait: Wait,
        sequence: int | None = None,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[list[int]]:
        """Items of one call and one number, with one delay; their positions.

        -1 for what was put before and is no longer remembered.
        """
        items = together([one.body for one in some])
        headers = each_own([one.headers for one in some])
        due = -some[0].delay
        done = yield from self.put_parcel(items, headers, due, wait, sequence, unique=unique)
        return (
            list(range(done.start, done.start + items.count)) if done.stop else [-1] * items.count
        )

    def gathered(self, some: Sequence[PutRequest], wait: Wait) -> Steps[tuple[PutItems, bytes]]:
        """Items as one call, the most urgent first, and their headers in that order."""
        del wait
        yield from ()
        return together([one.body for one in some]), each_own([one.headers for one in some])

    def ranked_one(self, body: Buffer, priority: float | None, wait: Wait) -> Steps[PutItems]:
        """One item as it would be put; where there are priorities, with its own."""
        del wait
        if priority is not None:
            raise _without(self.name, priority)
        yield from ()
        return parcel(body)

    def put_many(  # noqa: PLR0913 - all that a put says
        self,
        bodies: Iterable[Buffer] | Batch,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        sequence: int | None,
        limit: CallLimit = CALL,
        key: Key | Sequence[Key | None] | None = None,
        *,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[tuple[Interval, ...]]:
        """Many items; from the first one's position to behind the last one's."""
        calls = parcels(bodies, limit)
        return self._put_all(calls, key, headers, delay, timeout, sequence, unique)

    def _put_all(
        self,
        calls: Iterator[PutItems],
        key: Key | Sequence[Key | None] | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        sequence: int | None,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[tuple[Interval, ...]]:
        """Where they are, the most urgent first; of each priority from the first to the last."""
        packed, due = packed_headers(headers), due_of(delay)
        where: dict[int, Interval] = {}
        count = 0
        with ProgressNote("the first {} bodies are in the queue{}", 0, "") as so_far:
            begun = next(calls, None), next(calls, None)
            if begun[1] is not None and (sequence is not None or unique.key):
                raise TooLarge(
                    "these bodies need several calls, and a sequence number or a uniqueness key "
                    "names one: give at most 8 MiB and 32768 bodies with each"
                )
            for some in chain(filter(None, begun), calls):
                if key is not None:
                    packed = labelled(headers, key, some, count, last=begun[1] is None)
                so_far.asked = True
                wait = time_of_put(timeout)
                done = yield from self.put_parcel(some, packed, due, wait, sequence, unique=unique)
                so_far.asked = False
                for one in done.where:
                    own = told_interval(one)
                    before = where.get(priority := one.start >> PLACE_BITS, own)
                    start = before.start if before.size else own.start
                    where[priority] = Interval(start, max(start, own.stop))
                count += some.count
                so_far.told = count, f", in {where[0]}" if len(where) == 1 and 0 in where else ""
            if isinstance(key, list | tuple) and len(key) > count:
                raise BadOption("key", f"{len(key)} keys", f"as many as bodies, which are {count}")
        return tuple([where[one] for one in sorted(where)]) or (Interval(0, 0),)

    def put_parcel(
        self,
        items: PutItems,
        headers: bytes,
        due: int,
        wait: Wait,
        sequence: int | None,
        *,
        eager: bool = False,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[PutDone]:
        """Puts the items of one call; into one partition, where there are several.

        With `eager` it does not wait for nodes that are away.
        """
        done: PutDone
        number = self.producer.number(sequence)
        if self._grant is None and self.parts is None:
            yield from self._begin(wait, eager=eager)
        if self.parts is not None:
            own = number if self.producer.named else None
            done = yield from self.parts.put(items, headers, due, wait, own, unique)
            self.copies = done.copies
            return done
        put = Put(
            self.name,
            self.producer.name,
            number,
            items.offsets,
            items.blob,
            headers,
            due,
            wait.patience,
            caller=self.producer.caller,
            turn=self.producer.turn(),
            runs=items.runs,
            keys=items.keys,
            since=self.since,
            unique=unique.key,
            unique_for=unique.time,
        )
        done, _ = yield from self._ask(put, wait, store_of, len(items.blob), eager=eager)
        self.copies = done.copies
        return done

    # --- items out --------------------------------------------------------------------------------

    def ask_lease(
        self,
        items_max: int,
        bytes_max: int,
        wait: Wait,
        word: LeaseUpdate | None = None,
        *,
        ahead: bool,
        before: int,
        how: LeaseOptions = AS_SET,
    ) -> Steps[LeaseReply | None]:
        """Asks for items once; as `LeaseSteps.ask_lease`.

        A queue that is not there yet is waited for, like its items.
        """
        settle = None if word is None or self.parts is not None else self.settle_of(word)
        weight = min(bytes_max, _WEIGHT_MAX)
        while True:
            leased: Leased
            try:
                if self._grant is None and self.parts is None:
                    yield from self._begin(wait, make=False)
                if self.parts is not None and how.length:
                    raise _of_parts(self.name, how.length)
                if self.parts is not None:
                    asks = self.parts.ask_lease(items_max, bytes_max, wait, word, ahead, before)
                    return (yield from asks)
                get = Get(
                    self.name, items_max, bytes_max, wait.patience, settle, ahead, before,
                    self.since, how.length, how.together,
                )  # fmt: skip
                leased, asked = yield from self._ask(get, wait, master_of, weight, make=False)
            except NoSuchQueue as error:
                if self.since or isinstance(error, QueueMoved):
                    raise
                if wait.over:
                    return None
                yield Sleep(min(_MISSING_PAUSE, wait.left))
                continue
            self.away = sum([one.size for one in leased.away])
            late: LateRefusal | None = None
            if word is not None and leased.refused:
                late = LateRefusal(leased.refused)
                with suppress(SnowmeltError):  # a get says only that not all of it was done
                    late = yield from self.tell_done(word, Wait(0))
            return LeaseReply(leased, asked, late)

    def delivered(
        self, leased: Leased | GotPieces, asked: Instant, bytes_max: int
    ) -> Steps[LeasedItems | None]:
        """What an answer leased; None when nobody could give any of it in time."""
        if isinstance(leased, GotPieces):
            assert self.parts is not None, "it came from there"
            return (yield from self.parts.delivered(leased, asked, bytes_max))
        parts = leased.parts
        if leased.spans:
            parts = yield from self._complete(leased, bytes_max)
        if not parts:
            return None
        ends = later(asked, leased.lease)
        told = parts if self.ranks is None else with_ranks(parts, self.ranks)
        lease = self._lease if self._lease > leased.lease else leased.lease
        token = LeaseToken.of(leased.token, leased.secret)
        return LeasedItems(token, told, lease, ends)

    def _complete(self, leased: Leased, bytes_max: int) -> Steps[tuple[ItemRun, ...]]:
        """The parts that came along and those fetched; what nobody can give goes back.

        It failed, so that what is damaged does not come for ever; but not if who keeps it is away.
        """
        fetching = Fetching(self.name, bytes_max, self.chance)
        yield from fetching.fetch(leased.spans)
        if fetching.unread:
            damaged = without(fetching.unread, fetching.away)
            token = LeaseToken.of(leased.token, leased.secret)
            words = (
                LeaseUpdate(token, back=damaged, reason=DAMAGED),
                LeaseUpdate(token, back=runs(fetching.away)),
            )
            try:
                for one in [part for word in words if word.back for part in portions(word)]:
                    yield from self._ask(self.settle_of(one), Wait(0), master_of, make=False)
            except LeaseLost:
                return ()  # fetching took so long that all of them are others' by now
            except SnowmeltError:
                pass  # they go back when the lease ends
        if fetching.away and not (leased.parts or fetching.parts):
            self.away += sum([one.size for one in fetching.away])
            yield Sleep(_AWAY)
        return tuple(sorted((*leased.parts, *fetching.parts), key=lambda part: part.start))

    def tell(
        self, delivered: LeasedItems, word: LeaseUpdate
    ) -> Steps[tuple[Instant, LateRefusal | None]]:
        """Tells one word to the master."""
        if self.parts is not None and word.alone:
            raise _of_parts(self.name, word.lease)
        if self.parts is not None:
            return (yield from self.parts.tell(delivered, word))
        lease, asked, late = yield from self._tell(word, Wait(0))
        if lease:
            delivered.lease = self._lease = lease
        return asked, late

    def tell_done(self, word: LeaseUpdate, wait: Wait) -> Steps[LateRefusal | None]:
        """Tells what is done of one lease."""
        if self.parts is not None:
            return (yield from self.parts.tell_done(word, wait))
        return (yield from self._tell(word, wait))[2]

    def _tell(
        self, word: LeaseUpdate, wait: Wait
    ) -> Steps[tuple[Duration, Instant, LateRefusal | None]]:
        """For how long the lease is extended, when that was asked, and what came too late."""
        settled: Settled
        try:
            settled, asked = yield from self._ask(self.settle_of(word), wait, master_of, make=False)
        except LeaseLost as error:
            return Duration(0), steady_now(), LateRefusal(str(error))
        late: LateRefusal | None = None
        if settled.lost:
            why = f"position {position_of(settled.lost[0].start)} is not held any more"
            late = LateRefusal(why, settled.lost)
        return settled.lease, asked, late

    def empty(self, timeout: float) -> str:
        """The message of an `Empty`: what keeps items back, if anything does."""
        why = super().empty(timeout)
        if not self.away_parts:
            return why
        which = ", ".join(map(str, self.away_parts))
        return f"{why}; what partition {which} holds waits for nodes that are away"

    def partitions(self, timeout: float) -> Steps[list[Self]]:
        """As queues by themselves; itself where there is one."""
        yield from self._look(Wait(timeout))
        return [self] if self.parts is None else [cast("Self", one) for one in self.parts.all]

    def _has_parts(self, settings: QueueSettings) -> None:
        if self.parts is None:
            own = self.producer if self.producer.named else None
            parts = [
                type(self)(name, None, own or self.producer.another(), self.chance)
                for name in part_names(self.name, settings.partitions)
            ]
            for one in parts:
                one.ranks, one.whole = self.ranks, self
            self.parts = PartitionedQueue(self.name, self, parts, self.producer)
        self.parts.bounded = is_bounded(settings)

    def peek(self, count: int, dead: bool, timeout: float) -> Steps[list[Seen]]:
        return within(self._peeked(count, dead, timeout), timeout)

    def _peeked(self, count: int, dead: bool, timeout: float) -> Steps[list[Seen]]:
        seen: list[Seen] = []
        start = 0
        while len(seen) < count:
            ask = Peek(self.name, count - len(seen), PEEK_BYTES, start, dead)
            peeked: Peeked = yield from self.ask_about(ask, timeout, PEEK_BYTES)
            if not (peeked.parts or peeked.spans):
                break
            seen += yield from self.shown(peeked)
            if self.ranks is not None and self.ranks.keyed:
                break  # what comes after them has no position to ask for
            ends = [part.start + part.count for part in peeked.parts]
            start = max(ends + [span.stop for span in peeked.spans])
        return seen

    def shown(self, peeked: Peeked) -> Steps[list[Seen]]:
        """With what did not come along."""
        return shown((yield from fetched(self, peeked)))

    # --- the queue as a whole ---------------------------------------------------------------------

    def purge(self, dead: bool, leased: bool, timeout: float) -> Steps[int]:
        changed: Changed = yield from self.ask_about(Purge(self.name, dead, leased), timeout)
        return changed.items

    def alter(self, options: QueueOptions, timeout: float) -> Steps[None]:
        """From now on these are so; this user takes it as it is then."""
        yield from self.ask_about(Alter(self.name, *altered_options(options)), timeout)
        self._grant = None

    def pause(self, paused: bool, timeout: float, moving_to: str | None = None) -> Steps[None]:
        """Stops handing out, or goes on; or has new puts wait for a while."""
        to = "" if moving_to is None else queue_name(moving_to)
        yield from self.ask_about(Pause(self.name, paused, to), timeout)

    def redrive(self, per_second: int, timeout: float) -> Steps[int]:
        """Brings the dead back; how many."""
        changed: Changed = yield from self.ask_about(Redrive(self.name, per_second), timeout)
        return changed.items

    def stats(self, timeout: float) -> Steps[QueueStatus]:
        """Asks the leader, or each partition's, for counts and settings."""
        status: QueueStatus = yield from self.ask_about(Describe(self.name), timeout)
        return status

    def settle_of(self, word: LeaseUpdate) -> Settle:
        """An update as its queue hears it."""
        return Settle(
            self.name,
            int(word.token),
            word.done,
            word.back,
            -word.delay,
            word.reason,
            word.extend,
            word.dead,
            word.lease,
            secret_of(word.token),
            word.alone,
        )


def fetched(steps: FifoSteps, peeked: Peeked) -> Steps[Sequence[ItemRun]]:
    """What is shown, with what did not come along, of which nothing has a key."""
    parts = peeked.parts
    if peeked.spans:
        fetching = Fetching(steps.name, BYTES_HIGHEST, steps.chance)
        yield from fetching.fetch(peeked.spans)
        parts = tuple(sorted((*parts, *fetching.parts), key=lambda part: part.start))
    return parts if steps.ranks is None else with_ranks(parts, steps.ranks)


def with_ranks(parts: Iterable[ItemRun], ranks: Ranks) -> tuple[ItemSelection, ...]:
    """The same, which know what their priorities mean."""
    return tuple(
        [
            ItemSelection(
                one.start, one.offsets, one.blob, one.headers, one.failures, one.reason,
                one.times, one.keys, one.spans, ranks,
            )
            for one in parts
        ]
    )  # fmt: skip


def time_of_put(timeout: float) -> Wait:
    """That of a put: for so long its number is known."""
    return Wait(timeout, longest=PUT_LONGEST)


def queue_names(timeout: float) -> Steps[QueueNames]:
    """The same, and which of them have several priorities."""
    told: QueueNames = yield from ask_anybody(ListQueues(), Wait(timeout))
    return told


def due_of(delay: float) -> int:
    """So many seconds, as a call tells them: below 0, for no clock here may say when that is."""
    return -delay_of(delay)


def _without(queue: str, priority: float) -> BadOption:
    return BadOption("priority", priority, f"none in {queue}, which is a fifo")


def _of_parts(queue: str, length: Duration) -> BadOption:
    """A time of its own is not to be had of a queue with several partitions."""
    return BadOption("lease", length / SECOND, f"none: {queue} has several partitions")
