"""Who leads a partition in one term: it changes the state in steps, and tells what is safe.

Rules:

1. Whatever changes while the disk is busy is the next step. It goes to the own disk and to all
   followers at the same time, with the bodies of the puts that are in it.
2. Nothing is told that is not safe: on the disks of as many as must have it (`copies_needed`).
3. What changed nothing (an empty get, a look, a lease prolonged, a refusal) is told when all that
   it saw is safe, and as many have confirmed, asked after it, that they heard of no later term.
4. A follower that lacks steps is sent them, or all of the copy when they are not at hand any more.
5. Deadlines are this leader's: a lease's time begins when it is told. What a client asks again
   while it waits has the same answer.
6. Puts without room wait in their order, each once; with a client that is gone go its puts.
7. While a copy is on its way to somebody, no body is erased.
8. A silent follower that is missed is told to the controller, which names another.
9. What can't be read here is asked of all followers. Only what each of them lacks is lost.
"""

from collections import OrderedDict, deque
from heapq import heappop, heappush
from typing import Final, assert_never

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds, since
from snowmelt.core.interval import Interval, merged
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.answers import Answers
from snowmelt.protocols.fifo.desk import Desk, Seat
from snowmelt.protocols.fifo.messages import Home, Unreached
from snowmelt.protocols.fifo.segments import Segment, joined, part_of, stored
from snowmelt.protocols.fifo.streams import node_of
from snowmelt.protocols.fifo.waiting import Waiting, WaitingGet
from snowmelt.protocols.queue.batches import Batch
from snowmelt.protocols.queue.bodies import Bodies
from snowmelt.protocols.queue.copy import Copy
from snowmelt.protocols.queue.disk import Disk
from snowmelt.protocols.queue.sending import Sending
from snowmelt.protocols.queue.state import STATUS, State
from snowmelt.protocols.queue.words import (
    Append,
    Body,
    Confirm,
    Deliver,
    Fence,
    Fetch,
    Head,
    Mended,
    Message,
    Owed,
    OwnStep,
    ReplyTo,
    Show,
)

TOKEN_BITS: Final = 40
"""A token is its leader's term, and so many bits that count within it."""
AGAIN_AFTER: Final = milliseconds(300)
SILENT_MAX: Final = seconds(5)
COMPLAIN_LONGEST: Final = seconds(80)
STEPS_BYTES: Final = 16 << 20
"""Of steps that are kept for followers that lack them."""
CHECKED_EACH: Final = 16
"""After so many steps it is checked that records tell the state: that costs as much as it has."""
FETCHED_AT_ONCE: Final = 16
REDRIVE_EVERY: Final = milliseconds(100)


class Follower(msgspec.Struct):
    """What is known of another copy."""

    appended: int | None = None
    """Its last step; None where it is not known that it has this leader's steps."""
    fenced: bool = False
    confirmed: int = 0
    heard: Instant = Instant(0)
    sent: Instant = Instant(0)
    """When it was told something last."""
    sending: Sending | None = None
    """The copy that is on its way to it."""


class WaitingPut(msgspec.Struct):
    """A put for which there was no room yet (rule 6)."""

    put: calls.Put
    deadline: Instant
    asked: dict[OperationId, None] = {}
    turns: dict[str, int] = {}
    """Who waits for it: callers, and the last turn of each."""


class Leader:
    """Of one queue, in one term."""

    def __init__(
        self,
        desk: Desk,
        disk: Disk,
        bodies: Bodies,
        copy: Copy,
        home: Home,
        followers: dict[str, Follower],
    ) -> None:
        self.home = home
        self.copy = copy
        self.followers = followers
        self.state = State.restored(home.settings, copy.records, desk.limits)
        self.serving = False
        """Whether the controller has written down that this copy is the queue's."""
        self.waiting = Waiting()
        self.puts: OrderedDict[tuple[str, int], WaitingPut] = OrderedDict()
        self.begun = copy.head.step + 1
        """The first step of this term."""
        self.safe = 0
        self._desk = Seat(desk, home.queue)
        self._disk = disk
        self._hand = bodies
        self._needed = home.settings.copies_needed
        self._steps: deque[Append] = deque()
        self._steps_bytes = 0
        self._bodies: list[Body] = []
        """Of puts that are in no step yet."""
        self._over: list[Interval] = []
        """What is erased once no copy is on its way (rule 7)."""
        self._gathered: list[Owed] = []
        """What is owed when the next step is safe."""
        self._owed: deque[tuple[int, list[Owed]]] = deque()
        self._questions: deque[tuple[int, int, Owed]] = deque()
        """What waits for a step, and for the confirmation of a question (rule 3)."""
        self._asked = 0
        self._confirmed = 0
        self._tokens = home.term << TOKEN_BITS
        self._due: dict[int, Instant] = {}
        """When leases end; those that were not told yet have no end."""
        self._ends: list[tuple[Instant, int]] = []
        self._lacks: dict[Batch, dict[str, None]] = {}
        """Batches that can't be read here, and who has not said yet whether he has them."""
        self._held: list[Wants] = []
        """What waits for them."""
        self._sought = desk.now
        self._had: Answers[bool] = Answers(desk.limits.answered)
        self._said: Answers[msgspec.Struct] = Answers(desk.limits.answered)
        self._redriven = self._began = desk.now
        self._complain_at = later(desk.now, SILENT_MAX)
        self._complained = SILENT_MAX
        for token in self.state.leases:
            self._lasts(token)
        copy.home = home
        self.state.changed[STATUS] = None  # the first step of the term

    # --- items in ---------------------------------------------------------------------------------

    def put(self, operation: OperationId, put: calls.Put) -> None:
        """A batch comes in, once, or waits for room, or is refused."""
        producers, name = self.state.producers, (put.producer, put.sequence)
        if name in self.puts:
            self._joins(operation, put)
            return
        if producers.is_new(*name):
            refused = None
        else:
            earlier = producers.earlier(*name)
            if earlier is not None:
                lives = sum(one.size for one in self.state.batches.live.common(earlier))
                copies = self._copies if lives else 0
                done = calls.PutDone(earlier.start, earlier.stop, copies, True, repeated=True)
                self._owe(ReplyTo(operation, done))
                return
            refused = self._refusal(put)
        if refused is not None:
            self._owe(ReplyTo(operation, refused))
        elif self.puts or not self._fits(put):
            self.puts[name] = WaitingPut(put, self._desk.now)
            self._joins(operation, put)
        else:
            self._place((operation,), put)

    def _refusal(self, put: calls.Put) -> Declined | None:
        producers = self.state.producers
        if text := producers.past(put.producer, put.sequence):
            return Declined("SequenceTooOld", text)
        if producers.was_refused(put.producer, put.sequence, put.caller, put.turn):
            return Declined("Full", self._no_room())
        if text := producers.crowded(put.producer):
            return Declined("Full", text)
        return None

    @property
    def _copies(self) -> int:
        return 1 + len(self.followers)

    def _fits(self, put: calls.Put) -> bool:
        return self.state.fits(_count(put), put.size)

    def _place(self, operations: tuple[OperationId, ...], put: calls.Put) -> None:
        desk, state = self._desk, self.state
        due = desk.moment(put.due) if put.due else 0
        batch = state.put(
            put.producer,
            put.sequence,
            _count(put),
            put.size,
            term=self.home.term,
            wall=desk.wall,
            due=due if due > desk.wall else 0,
        )
        if due > desk.wall:
            desk.wake(desk.instant_of(due))
        segment = Segment(batch.start, put.offsets, put.blob, put.headers, desk.wall)
        self._hand.add(self.home.queue, batch, segment)
        self._bodies.append(Body(batch.key, stored(segment)))
        done = calls.PutDone(batch.start, batch.stop, self._copies, True)
        for operation in operations:
            self._gathered.append(ReplyTo(operation, done))

    def _joins(self, operation: OperationId, put: calls.Put) -> None:
        """It waits with whoever asked for the same put, or begins to."""
        waiting = self.puts[put.producer, put.sequence]
        waiting.asked[operation] = None
        if put.turn > waiting.turns.get(put.caller, -1):
            waiting.turns[put.caller] = put.turn
            waiting.deadline = later(self._desk.now, put.patience)
            self._desk.wake(waiting.deadline)
        if waiting.deadline <= self._desk.now or self._never_fits(put):
            self._full(waiting)

    def _never_fits(self, put: calls.Put) -> bool:
        items, most = self.home.settings.items_max, self.home.settings.bytes_max
        return 0 < items < _count(put) or 0 < most < put.size

    def _full(self, waiting: WaitingPut) -> None:
        put = waiting.put
        del self.puts[put.producer, put.sequence]
        self.state.producers.refuse(put.producer, put.sequence, waiting.turns, self._desk.wall)
        for operation in waiting.asked:
            self._owe(ReplyTo(operation, Declined("Full", self._no_room())))

    def _no_room(self) -> str:
        settings, state = self.home.settings, self.state
        held = state.batches.live.total - state.dead.total
        return (
            f"queue {self.home.queue!r} holds {held} items in {state.size} bytes; "
            f"its bounds are {settings.items_max or 'no'} items and "
            f"{settings.bytes_max or 'no'} bytes"
        )

    def _let_in(self) -> None:
        """Who waits for room, in their order."""
        while self.puts:
            name, waiting = next(iter(self.puts.items()))
            if not self._fits(waiting.put):
                return
            del self.puts[name]
            self._place(tuple(waiting.asked), waiting.put)

    # --- items out --------------------------------------------------------------------------------

    def get(self, operation: OperationId, get: calls.Get) -> None:
        """A consumer wants items; it waits where there are none."""
        waiting = self.waiting.gets.get(operation)
        if waiting is not None:
            waiting.asked = self._desk.now
            return
        refused = ""
        if get.settle is not None:
            said = self._settle_once(operation, get.settle)
            refused = said.text if isinstance(said, Declined) else ""
        token = self.state.tokens.get(operation)
        if token is not None:
            self._owe(Deliver(operation, token, refused))
        elif self._had.of(operation) or self.state.had(operation):
            self._empty(operation, refused)
        elif self._lease(operation, get, refused):
            return
        elif get.patience <= 0:
            self._empty(operation, refused)
        elif len(self.waiting.gets) >= self._desk.limits.waiting_gets:
            text = f"{len(self.waiting.gets)} gets wait at queue {self.home.queue!r} already"
            self._desk.decline(operation, "Unavailable", text)
        else:
            self.waiting.add_get(operation, get, refused, self._desk.now)
            self._desk.wake(later(self._desk.now, get.patience))

    def _lease(self, operation: OperationId, get: calls.Get, refused: str) -> bool:
        if not self.state.ready.total:
            return False
        items_max = min(get.items_max, self._desk.limits.get_items)
        bytes_max = min(get.bytes_max, self._desk.limits.fetch_bytes)
        found = self.state.first(items_max, bytes_max)
        if not found:
            return False
        self._tokens += 1
        self.state.take(operation, self._tokens, found, ahead=get.ahead)
        self._gathered.append(Deliver(operation, self._tokens, refused))
        return True

    def _lease_waiting(self, waiting: WaitingGet) -> bool:
        return self._lease(waiting.operation, waiting.get, waiting.refused)

    def _empty(self, operation: OperationId, refused: str) -> None:
        self._had.keep(operation, True)
        answer = calls.Leased(0, (), (), self.home.settings.lease, refused)
        self._owe(ReplyTo(operation, answer))

    def _serve(self) -> None:
        """Items may have become ready, or there may be room; or patience has ended."""
        self._let_in()
        if self.waiting.gets and self.state.ready.total:
            self.waiting.serve(self._lease_waiting, self._desk.now)
        for over in self.waiting.over(self._desk.now):
            self._empty(over.operation, over.refused)

    # --- what becomes of them ---------------------------------------------------------------------

    def settle(self, operation: OperationId, settle: calls.Settle) -> None:
        """A consumer says what became of its items."""
        self._owe(ReplyTo(operation, self._settle_once(operation, settle)))

    def _settle_once(self, operation: OperationId, settle: calls.Settle) -> msgspec.Struct:
        before = self._said.of(operation)
        if before is not None:
            return before
        return self._said.keep(operation, self._settled(operation, settle))

    def _settled(self, operation: OperationId, settle: calls.Settle) -> msgspec.Struct:
        state, token = self.state, settle.token
        lease = state.leases.get(token)
        if lease is None and state.enders.get(token) == operation:
            return calls.Settled(0)
        over = lease is None and (settle.back or settle.extend or not settle.done)
        strange = [] if over else state.settle(token, merged(settle.done))
        if over or (strange and lease is None):
            return Declined(
                "LeaseLost",
                f"lease {token} of queue {self.home.queue!r} is not held any more: its time was "
                "over, or it was given back; its items may be with another consumer",
            )
        if strange:
            text = f"position {strange[0].start} is not held under lease {token}"
            return Declined("LeaseLost", text)
        if lease is None:
            return calls.Settled(0)
        if settle.back:
            self._give_back(operation, settle)
        left = lease.left.total
        if left and settle.extend and token in self._due:
            self._lasts(token)
        return calls.Settled(left)

    def _give_back(self, operation: OperationId, settle: calls.Settle) -> None:
        desk = self._desk
        due = desk.moment(settle.due) if settle.due else 0
        late = due if due > desk.wall else 0
        self.state.give_back(
            operation,
            settle.token,
            merged(settle.back),
            due=late,
            reason=settle.reason,
            dead=settle.dead,
        )
        if late:
            desk.wake(desk.instant_of(late))

    def _lasts(self, token: int) -> None:
        """The whole time of a lease, from now on."""
        end = later(self._desk.now, self.home.settings.lease)
        self._due[token] = end
        heappush(self._ends, (end, token))
        self._desk.wake(end)

    def end_leases(self) -> None:
        """There is no other process that could hold one."""
        for token in list(self.state.leases):
            self.state.expire(token)

    def _expire(self) -> None:
        while self._ends and self._ends[0][0] <= self._desk.now:
            end, token = heappop(self._ends)
            if self._due.get(token) != end:
                continue
            del self._due[token]
            lease = self.state.leases.get(token)
            if lease is not None:
                client = lease.operation.client
                self._desk.note(f"{self.home.queue}: lease {token} of {client} ended")
                self.state.expire(token)

    # --- the queue as a whole ---------------------------------------------------------------------

    def look(self, operation: OperationId, ask: calls.Peek | calls.Describe) -> None:
        """Shows something, and changes nothing."""
        if isinstance(ask, calls.Describe):
            self._owe(ReplyTo(operation, self._status()))
            return
        state, left = self.state, min(ask.items_max, self._desk.limits.get_items)
        source = state.dead if ask.dead else state.ready
        size, wanted = ask.bytes_max, list[Interval]()
        for interval in source.within(Interval(ask.start, max(ask.start, state.tail))):
            for batch, where in state.batches.over(interval):
                each = max(1, batch.size // (batch.stop - batch.start))
                count = min(where.size, left, max(size // each, 0 if wanted else 1))
                wanted += [Interval(where.start, where.start + count)] if count > 0 else []
                left, size = left - count, size - count * each
                if left <= 0 or size <= 0 or len(wanted) >= self._desk.limits.lease_runs:
                    self._owe(Show(operation, tuple(wanted)))
                    return
        self._owe(Show(operation, tuple(wanted)))

    def change(
        self, operation: OperationId, ask: calls.Purge | calls.Pause | calls.Redrive
    ) -> None:
        """Does something to all of it, once."""
        before = self._said.of(operation)
        if before is None:
            before = self._said.keep(operation, calls.Changed(self._changed(ask)))
        self._owe(ReplyTo(operation, before))

    def _changed(self, ask: calls.Purge | calls.Pause | calls.Redrive) -> int:
        state = self.state
        match ask:
            case calls.Purge(dead=dead):
                return state.purge(dead=dead)
            case calls.Pause(paused=paused):
                state.pause(paused=paused)
                return 0
            case calls.Redrive(per_second=rate):
                if not rate:
                    return state.redrive(state.dead.total)
                state.redrive_at(rate)
                self._redriven = self._desk.now
                self._desk.wake(self._desk.now)
                return state.dead.total
            case _:
                assert_never(ask)

    def _redrive(self) -> None:
        """Some more of those that come back at a rate."""
        state, now = self.state, self._desk.now
        if not state.redriving:
            return
        due = (now - self._redriven) * state.redriving // 10**9
        if due:
            self._redriven = now
            state.redrive(due)
        if state.dead.total:
            self._desk.wake(later(now, Duration(max(REDRIVE_EVERY, 10**9 // state.redriving))))
        else:
            state.redrive_at(0)

    def _status(self) -> calls.QueueStatus:
        state, home = self.state, self.home
        return calls.QueueStatus(
            queue=home.queue,
            settings=home.settings.told,
            master=self._desk.me,
            mirrors=tuple(node_of(keeper) for keeper in home.mirrors),
            term=home.term,
            paused=state.paused,
            ready=state.ready.total,
            delayed=state.delays.total,
            leased=sum(lease.left.total for lease in state.leases.values()),
            dead=state.dead.total,
            bytes=state.size,
            tail=state.tail,
            done=state.done,
            lost=state.lost,
            waiting_gets=len(self.waiting.gets),
            waiting_puts=len(self.puts),
            extents=state.batches.blocks,
            short_of_copies=state.batches.live.total if self._lacking else 0,
            producers=len(state.producers),
            mirrors_behind=len(self._behind),
        )

    @property
    def _sends(self) -> bool:
        """Whether a copy is on its way to somebody."""
        return any(one.sending is not None for one in self.followers.values())

    @property
    def _lacking(self) -> bool:
        """Whether a follower has no copy that goes on by steps."""
        return any(one.appended is None for one in self.followers.values())

    @property
    def _behind(self) -> list[str]:
        step = self.copy.head.step
        return [name for name, one in self.followers.items() if one.appended != step]

    def gone(self, client: NodeId) -> None:
        """Nobody is there for what this client waits for (rule 6)."""
        self.waiting.gone(client)
        for name, waiting in list(self.puts.items()):
            waiting.asked = {one: None for one in waiting.asked if one.client != client}
            if not waiting.asked:
                del self.puts[name]

    # --- steps ------------------------------------------------------------------------------------

    def _owe(self, owed: Owed) -> None:
        """Tells it with the next step, or when it is confirmed that this one leads (rule 3)."""
        if self.state.changed:
            self._gathered.append(owed)
            return
        self._questions.append((self.copy.head.step, self._asked + 1, owed))
        if self._confirmed == self._asked:
            self._ask()

    def _ask(self) -> None:
        self._asked += 1
        self._to_all(Confirm(self.home.queue, self.home.term, self._asked))
        if self.followers:
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))
        self._tell()

    def step(self) -> None:
        """All that changed since the last step is the next one, if the disk is free (rule 1)."""
        self._serve()
        state, copy = self.state, self.copy
        if not state.changed or not self._disk.free:
            return
        pairs, over = state.changes()
        self._over += over
        if not self._sends:
            over, self._over = tuple(self._over), []
        else:
            over = ()
        queue, after, head = self.home.queue, copy.head, Head(self.home.term, copy.head.step + 1)
        bodies, self._bodies = tuple(self._bodies), []
        step = Append(queue, self.home.term, head, after, pairs, bodies, over)
        if self._gathered:
            self._owed.append((head.step, self._gathered))
            self._gathered = []
        self._disk.write(queue, copy.append(head, pairs, bodies, over), OwnStep(head))
        if self.followers:
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))
            self._keep(step)
            for name, follower in self.followers.items():
                if follower.appended is not None:
                    self._send(name, step)

    def _keep(self, step: Append) -> None:
        """For those who turn out to lack it (rule 4)."""
        self._steps.append(step)
        self._steps_bytes += _weight(step)
        least = min(
            (one.appended for one in self.followers.values() if one.appended is not None),
            default=step.head.step,
        )
        while self._steps and not self._sends:
            first = self._steps[0]
            if first.head.step > least and self._steps_bytes <= STEPS_BYTES:
                return
            self._steps_bytes -= _weight(self._steps.popleft())

    def own_flushed(self, head: Head) -> None:
        """This node has a step on its disk."""
        self.copy.flushed = head
        self._tell()

    def appended(self, keeper: str, head: Head) -> None:
        """Another has all up to this step."""
        follower = self.followers.get(keeper)
        if follower is None:
            return
        follower.heard, follower.fenced = self._desk.now, True
        if follower.sending is not None and head >= follower.sending.head:
            follower.sending = None
        known = head.term == self.home.term and head.step <= self.copy.head.step
        if known and head.step > (follower.appended or -1):
            follower.appended = head.step
            self._tell()
        if follower.appended != self.copy.head.step:
            self._later(follower)

    def _later(self, follower: Follower) -> None:
        """What it lacks is on its way, or is sent again after a while."""
        self._desk.wake(later(max(follower.sent, self._desk.now), AGAIN_AFTER))

    def behind(self, keeper: str, head: Head) -> None:
        """It has no more than this, whatever it had: its disk may be another's, or older."""
        follower = self.followers.get(keeper)
        if follower is None:
            return
        follower.heard, follower.fenced = self._desk.now, True
        if head.term != self.home.term:
            follower.appended = None
        elif follower.appended is not None:
            follower.appended = min(follower.appended, head.step)
        self._later(follower)

    def fenced(self, keeper: str, head: Head) -> None:
        """It takes nothing earlier, and this is what it has."""
        follower = self.followers.get(keeper)
        if follower is None or follower.appended is not None:
            return
        follower.heard, follower.fenced = self._desk.now, True
        if self._steps and head == self._steps[0].after:
            follower.appended = head.step
        self._bring_up(keeper, follower)

    def confirmed(self, keeper: str, number: int) -> None:
        """It has heard of no later term."""
        follower = self.followers.get(keeper)
        if follower is None:
            return
        follower.heard = self._desk.now
        follower.confirmed = max(follower.confirmed, number)
        self._tell()

    def bring(self, keeper: str, head: Head) -> Sending | None:
        """What is on its way to a follower: it wants the next piece."""
        follower = self.followers.get(keeper)
        if follower is None:
            return None
        follower.heard = self._desk.now
        sending = follower.sending
        return sending if sending is not None and sending.head == head else None

    def _bring_up(self, keeper: str, follower: Follower) -> None:
        """What brings it up: a fence, the steps that it lacks, or all there is (rule 4)."""
        now, queue, term = self._desk.now, self.home.queue, self.home.term
        follower.sent = now
        if follower.appended is None and not follower.fenced:
            self._send(keeper, Fence(queue, term, keeper))
        elif follower.appended is not None and self._has_behind(follower.appended):
            for step in self._steps:
                if step.head.step > follower.appended:
                    self._send(keeper, step)
        elif self.copy.head.term == term:  # else its first step is not made yet
            if follower.sending is None:
                follower.sending = Sending(self.copy)
            self._desk.inside.append(Begin(queue, keeper))
        self._desk.wake(later(now, AGAIN_AFTER))

    def _has_behind(self, step: int) -> bool:
        return bool(self._steps) and self._steps[0].after.step <= step

    def _tell(self) -> None:
        """What is safe is told (rules 2 and 3)."""
        own = self.copy.flushed
        has = [own.step if own.term == self.home.term else 0]
        has += [one.appended or 0 for one in self.followers.values()]
        self.safe = max(self.safe, self._of_enough(has))
        sure = [self._asked, *(one.confirmed for one in self.followers.values())]
        self._confirmed = self._of_enough(sure)
        while self._owed and self._owed[0][0] <= self.safe:
            for owed in self._owed.popleft()[1]:
                self._pay(owed)
        while self._questions and self._questions[0][0] <= self.safe:
            if self._questions[0][1] > self._confirmed:
                break
            self._pay(self._questions.popleft()[2])
        if self._questions and self._questions[-1][1] > self._asked == self._confirmed:
            self._ask()

    def _of_enough(self, has: list[int]) -> int:
        """What as many have as must."""
        has.sort(reverse=True)
        return has[self._needed - 1]

    # --- what is owed -----------------------------------------------------------------------------

    def _pay(self, owed: Owed) -> None:
        match owed:
            case ReplyTo(operation, answer):
                self._desk.reply(operation, answer)
            case Deliver(operation, token, _):
                if token not in self.state.leases:  # it was settled, or is over, before it was told
                    return
                if token not in self._due:
                    self._lasts(token)
                self._show(owed, tuple(self.state.leases[token].left))
            case Show(operation, positions):
                self._show(owed, positions)
            case _:
                assert_never(owed)

    def _show(
        self,
        owed: Deliver | Show,
        positions: tuple[Interval, ...],
        read: dict[int, Segment] | None = None,
    ) -> None:
        """With bodies at hand, or those that were read for it."""
        queue, parts, absent = self.home.queue, list[calls.Part](), list[Batch]()
        hand = dict[int, Segment]() if read is None else read
        for interval in positions:
            for batch, where in self.state.batches.over(interval):
                segment = hand.get(batch.start) or self._hand.of(queue, batch)
                if segment is None:
                    absent.append(batch)
                    continue
                hand[batch.start] = segment
                if not absent:
                    parts += self._parts(segment, where)
        if absent:
            self._desk.inside.append(Wants(queue, tuple(absent), owed, hand))
        elif isinstance(owed, Show):
            self._desk.reply(owed.operation, calls.Peeked(tuple(joined(parts)), ()))
        elif (left := since(self._desk.now, self._due[owed.token])) > 0:
            leased = calls.Leased(owed.token, tuple(joined(parts)), (), left, owed.refused)
            self._desk.reply(owed.operation, leased)

    def _parts(self, segment: Segment, where: Interval) -> list[calls.Part]:
        """Items of one batch, by how often they failed."""
        failures = self.state.failures.common(where)
        if not failures:
            return [part_of(segment, where.start, where.stop, where.start)]
        cut: list[calls.Part] = []
        at = where.start
        for part, failure in failures:
            if at < part.start:
                cut.append(part_of(segment, at, part.start, at))
            whole = part_of(segment, part.start, part.stop, part.start)
            told = msgspec.structs.replace(whole, failures=failure.times, reason=failure.reason)
            cut.append(told)
            at = part.stop
        if at < where.stop:
            cut.append(part_of(segment, at, where.stop, at))
        return cut

    def read(self, wants: "Wants", unread: list[Batch]) -> None:
        """Bodies were read; or could not be, and are asked of the others."""
        if unread:
            self._held.append(wants)
            self.lack(unread)
            return
        owed, live = wants.owed, self.state.batches.live
        if isinstance(owed, Show):
            alive = [part for one in owed.positions for part in live.common(one)]
            self._show(owed, tuple(alive), wants.hand)
        elif owed.token in self.state.leases:
            self._show(owed, tuple(self.state.leases[owed.token].left), wants.hand)

    def lack(self, batches: list[Batch]) -> None:
        """These can't be read here: whoever else has them is asked (rule 9)."""
        for batch in batches:
            self._lacks.setdefault(batch, dict.fromkeys(self.followers))
        self._seek()

    @property
    def lacking(self) -> list[Batch]:
        """What can't be read here."""
        return list(self._lacks)

    def _seek(self) -> None:
        """Asks, and asks again; what nobody has is lost."""
        for batch, others in list(self._lacks.items()):
            if not others:
                del self._lacks[batch]
                self.state.lose(Interval(batch.start, batch.stop))
                for follower in self.followers.values():
                    follower.sending = None  # it can't be sent either
        if not self._lacks:
            held, self._held = self._held, []
            for wants in held:
                self.read(wants, [])
            return
        asked = self._desk.now
        for keeper in self.followers:
            lacks = [batch for batch, others in self._lacks.items() if keeper in others]
            if lacks:
                names = tuple((one.start, one.stop, one.term) for one in lacks[:FETCHED_AT_ONCE])
                word = Fetch(self.home.queue, self.home.term, names)
                self._desk.send(node_of(keeper), word)
        self._sought = asked
        self._desk.wake(later(asked, AGAIN_AFTER))

    def fetched(self, keeper: str, found: dict[Batch, Segment | None]) -> None:
        """Another has some of what can't be read here, or has not."""
        bodies: list[Body] = []
        for batch, segment in found.items():
            others = self._lacks.get(batch)
            if others is None:
                continue
            others.pop(keeper, None)
            if segment is not None:
                del self._lacks[batch]
                bodies.append(Body(batch.key, stored(segment)))
                self._hand.add(self.home.queue, batch, segment)
                for wants in self._held:
                    wants.hand[batch.start] = segment
        if bodies:
            changes = tuple(self.copy.stored(bodies))
            self._disk.write(self.home.queue, changes, Mended())
        if bodies or any(not others for others in self._lacks.values()):
            self._seek()

    # --- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Ends what is over, and asks again."""
        now, state = self._desk.now, self.state
        self._expire()
        state.wake(self._desk.wall)
        if state.dues:
            self._desk.wake(self._desk.instant_of(state.dues[0][0]))
        for waiting in list(self.puts.values()):
            if waiting.deadline <= now:
                self._full(waiting)
        self._redrive()
        if self._lacks and later(self._sought, AGAIN_AFTER) <= now:
            self._seek()
        self._remind()
        self._complain()
        ends = [one.deadline for one in self.puts.values()]
        ends += [end for end, _ in self._ends[:1]]
        gets = self.waiting.next_deadline()
        for end in ends if gets is None else (*ends, gets):
            self._desk.wake(end)

    def _remind(self) -> None:
        now = self._desk.now
        for name, follower in self.followers.items():
            behind = follower.appended != self.copy.head.step
            unsure = follower.confirmed < self._asked and self._confirmed < self._asked
            if not (behind or unsure):
                continue
            if follower.sending is not None and later(follower.heard, AGAIN_AFTER) > now:
                self._desk.wake(later(follower.heard, AGAIN_AFTER))  # its next piece is on its way
                continue
            if later(follower.sent, AGAIN_AFTER) <= now:
                follower.sent = now
                if unsure:
                    self._send(name, Confirm(self.home.queue, self.home.term, self._asked))
                if behind:
                    self._bring_up(name, follower)
            self._desk.wake(later(follower.sent, AGAIN_AFTER))

    def _complain(self) -> None:
        """Rule 8."""
        presence, now = self._desk.presence, self._desk.now
        if presence is None:
            return
        silent = [
            name
            for name, one in self.followers.items()
            if name in presence.keepers
            and (one.appended != self.copy.head.step or one.confirmed < self._asked)
            and later(max(one.heard, self._began), SILENT_MAX) <= now
        ]
        if not silent:
            self._complained = SILENT_MAX
            return
        if self._complain_at > now:
            self._desk.wake(self._complain_at)
            return
        self._complained = Duration(min(2 * self._complained, COMPLAIN_LONGEST))
        self._complain_at = later(now, self._complained)
        word = Unreached(self.home.queue, self.home.term, self.home.run, silent[0])
        self._desk.note(f"{self.home.queue}: {silent[0]} does not answer; asks for a way round it")
        self._desk.send(presence.view.coordinator, word)

    # --- out --------------------------------------------------------------------------------------

    def _send(self, keeper: str, message: Message) -> None:
        self.followers[keeper].sent = self._desk.now
        self._desk.send(node_of(keeper), message)

    def _to_all(self, message: Message) -> None:
        for keeper in self.followers:
            self._desk.send(node_of(keeper), message)

    def check(self) -> None:
        """Asserts what always holds."""
        self.state.check()
        if not self.state.changed and self.copy.head.step % CHECKED_EACH == 0:
            told = State.restored(self.home.settings, self.copy.records, self._desk.limits)
            assert told.records() == self.state.records(), "records tell another state"
        assert self.safe <= self.copy.head.step


class Begin(msgspec.Struct, frozen=True):
    """The first piece of a copy is to be sent to a follower."""

    queue: str
    keeper: str


class Wants(msgspec.Struct, frozen=True):
    """Bodies are to be read from the disk for what is owed."""

    queue: str
    batches: tuple[Batch, ...]
    owed: Deliver | Show
    hand: dict[int, Segment]
    """Those that are at hand, by where they begin."""


def _count(put: calls.Put) -> int:
    return len(put.offsets) // 4 - 1


def _weight(step: Append) -> int:
    return 200 + sum(len(one.value) for one in step.bodies) + 40 * len(step.records)
