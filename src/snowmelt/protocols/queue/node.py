"""The machine of a node: its copies of partitions, those it leads, and the door for clients.

Which node leads in which term is decided as for the fifo (`fifo/registry.py`); a term is a `Home`.

1. A run leads in a term once at most. One that it began and left it claims anew.
2. A term is served once the controller has written down that its copies are the queue's.
3. Whoever hears of a later term leads no more, and tells nothing of what it owed.
4. Calls go to the leader: who asks another node is told where that is.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final, assert_never

import msgspec

from snowmelt.core.batch import Batch as Bodies_of
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Effect,
    Event,
    Expired,
    Load,
    Loaded,
    Persisted,
    PersistFailed,
    Received,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.core.record import Record
from snowmelt.protocols.calling import Elsewhere, Gone
from snowmelt.protocols.fifo import calls, labels
from snowmelt.protocols.fifo import messages as fifo
from snowmelt.protocols.fifo.absence import waits
from snowmelt.protocols.fifo.asking import problem
from snowmelt.protocols.fifo.desk import NODE, REST, Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Home, Nowhere
from snowmelt.protocols.fifo.registry import Registry
from snowmelt.protocols.fifo.segments import Segment, unstored
from snowmelt.protocols.fifo.settings import BODY_BYTES_MAX, PUT_BYTES_MAX, QueueSettings
from snowmelt.protocols.fifo.streams import Presence, gone_for_ever, node_of
from snowmelt.protocols.membership import CutOff, Leads, LeadsNoMore, RecordsKept, Unsure, View
from snowmelt.protocols.queue import words
from snowmelt.protocols.queue.batches import KIND, Batch
from snowmelt.protocols.queue.bodies import Bodies
from snowmelt.protocols.queue.copy import COPY, RECORD, TWIN, Copy, Kept
from snowmelt.protocols.queue.disk import FIRST_TICKET, Disk
from snowmelt.protocols.queue.leader import Begin, Follower, Leader, Wants
from snowmelt.protocols.queue.sending import Sending
from snowmelt.protocols.queue.takeover import TakeOver

Effects = list[Effect[Any]]
HELD_AT_ONCE: Final = 200
AGAIN_AFTER: Final = milliseconds(300)
EARLY_STEPS: Final = 100
READS: Final = 1 << 41
"""Tickets of reads are above this."""


class QueueTimer(Enum):
    TICK = "queue.tick"


class Reading(msgspec.Struct):
    """Bodies that are being read from the disk: for what is owed, or for a piece of a copy."""

    queue: str
    batches: tuple[Batch, ...]
    wants: Wants | None = None
    fetch: words.Fetch | None = None
    target: str = ""
    number: int = 0
    last: bool = False
    head: words.Head = words.NOTHING


class QueueNode:
    """One node's part in all queues."""

    def __init__(
        self,
        me: NodeId,
        chance: Random,
        *,
        alone: bool = False,
        limits: Limits = LIMITS,
        on_disk: bool = True,
    ) -> None:
        desk = self._desk = Desk(me, chance, limits)
        self._directory = Directory(desk)
        self._registry = Registry(desk, on_disk=on_disk)
        self._alone = alone
        self._disk = Disk()
        self._bodies = Bodies(limits.recent_bytes)
        self._copies: dict[str, Copy] = {}
        self._leaders: dict[str, Leader] = {}
        self._takeovers: dict[str, TakeOver] = {}
        self._begun: dict[str, int] = {}
        """The last term of each queue that this run began (rule 1)."""
        self._early: dict[str, dict[words.Head, words.Append]] = {}
        """Steps that came before those that they go behind, by these."""
        self._pieces: dict[str, tuple[int, words.Head, int]] = {}
        """By queue, of the copy that comes: its term, its head, and which piece is next."""
        self._sendings: dict[tuple[str, str], Sending] = {}
        """To those who take over, by queue and keeper."""
        self._reading: dict[int, Reading] = {}
        self._tickets = READS
        self._touched: dict[str, None] = {}
        self._timer: Instant | None = None
        self._hears = self._table()

    def handle(self, event: Event[Any], now: Instant) -> Effects:
        """One door in; what changed goes to the disk as one step a queue."""
        self._desk.now = now
        if type(event) is Requested:
            self._requested(event.operation, event.message)
        elif type(event) is Received:
            self._hears[type(event.message)](event.source, event.message)
        elif type(event) is Persisted:
            self._persisted(event)
        else:
            self._told(event, now)
        self._settle()
        return self._desk.taken()

    def check(self) -> None:
        for leader in self._leaders.values():
            leader.check()

    # --- events -----------------------------------------------------------------------------------

    def _told(self, event: Event[Any], now: Instant) -> None:
        desk = self._desk
        match event:
            case PersistFailed(ticket, reason):
                if ticket < FIRST_TICKET:
                    desk.written(event)
                else:
                    self._disk.failed(reason, now)
                    desk.wake(self._disk.again or now)
            case Loaded(ticket, found):
                if ticket < READS:
                    desk.read(event)
                else:
                    self._loaded(self._reading.pop(ticket), found)
            case Expired():
                self._timer = None
                self._tick()
            case Announced(View() as view):
                self._viewed(Presence(view, desk.presence, now))
            case Announced(CutOff()):
                desk.set_presence(None)
                for queue in [*self._leaders, *self._takeovers]:
                    self._resign(queue)
            case Announced((Leads() | LeadsNoMore() | RecordsKept()) as fact):
                self._registry.told(fact)
            case Announced(Unsure(until)):
                self._registry.unsure(until)
            case Announced(Gone(client)):
                for leader in self._leaders.values():
                    leader.gone(client)
            case Started():
                desk.set_wall(event.wall, now)
                self._begin(event)
                self._registry.begin(event)
            case _:
                pass

    def _persisted(self, event: Persisted) -> None:
        if event.ticket < FIRST_TICKET:
            self._desk.written(event)
            return
        for queue, flush in self._disk.written():
            self._flushed(queue, flush)
        for queue in self._leaders:
            self._touched[queue] = None

    def _tick(self) -> None:
        for name in self._desk.alarms.due(self._desk.now):
            if name == REST:
                self._desk.finish()
            elif name == NODE:
                self._directory.tick()
                self._registry.tick()
                self._seek()
            elif name in self._leaders:
                self._touched[name] = None
                self._leaders[name].tick()

    def _settle(self) -> None:
        """Works off what parts say to each other; then steps are made, and the disk begins."""
        desk = self._desk
        while desk.inside or self._touched:
            while desk.inside:
                message = desk.inside.popleft()
                self._hears[type(message)](desk.me, message)
            touched, self._touched = self._touched, {}
            for queue in touched:
                leader = self._leaders.get(queue)
                if leader is not None:
                    leader.step()
        if not desk.writing and desk.due is not None:
            if desk.due <= desk.now:
                desk.begin_write()
            else:
                desk.wake(desk.due)
        persist = self._disk.begin(desk.now)
        if persist is not None:
            desk.effect(persist)
        wake_at = desk.alarms.before(self._timer)
        if wake_at is not None:
            self._timer = wake_at
            desk.effect(SetTimer(QueueTimer.TICK, wake_at))

    def _begin(self, started: Started) -> None:
        """From the disk."""
        decode = msgspec.msgpack.decode
        told: dict[bytes, None] = {}
        for record in started.records:
            kind, rest = record.key[:1], record.key[1:]
            if kind in (COPY, TWIN):
                told[rest] = None
                self._of(rest.decode()).restore(decode(record.value, type=Kept))
            elif kind == RECORD:
                name, _, key = rest.partition(b"\0")
                self._of(name.decode()).records[key] = record.value
        hurt = {key[1:].partition(b"\0")[0] for key in started.damaged if key[:1] == RECORD}
        hurt |= {key[1:] for key in started.damaged if key[:1] in (COPY, TWIN)} - set(told)
        for name in hurt:
            self._of(name.decode()).whole = False
            self._desk.note(f"a record of {name.decode()} can't be read: its copy is none")

    def _of(self, queue: str) -> Copy:
        if queue not in self._copies:
            self._copies[queue] = Copy(queue)
        return self._copies[queue]

    def _viewed(self, presence: Presence) -> None:
        desk = self._desk
        desk.set_presence(presence)
        self._registry.viewed()
        for queue in self._copies:
            if queue not in self._leaders and queue not in self._takeovers:
                self._directory.forget(queue)
                self._directory.ask(queue, _nobody)

    # --- terms ------------------------------------------------------------------------------------

    def _home(self, source: NodeId, home: Home) -> None:
        queue, known = home.queue, self._directory.home(home.queue)
        if known is not None and self._desk.alarm(source, queue, home.term, known.term):
            return
        copy = self._copies.get(queue)
        if copy is not None and self._desk.alarm(source, queue, home.term, copy.fence):
            return
        self._heard(home)
        self._directory.heard(home)

    def _heard(self, home: Home) -> None:
        queue, leader, taking = home.queue, self._leaders.get(home.queue), None
        taking = self._takeovers.get(queue)
        newest = max(
            0 if leader is None else leader.home.term, 0 if taking is None else taking.home.term
        )
        if home.term < newest:
            return
        if leader is not None and leader.home.term == home.term:
            if home.active and not leader.serving:
                leader.serving = True  # rule 2
                self._touched[queue] = None
            self._activate(leader)
            return
        desk = self._desk
        if home.master != desk.keeper:
            self._resign(queue)
        elif taking is not None and taking.home.term == home.term:
            return
        elif home.run != desk.stream or home.active or home.term <= self._begun.get(queue, 0):
            self._resign(queue)
            self._claim(queue, home.term)
        else:
            self._resign(queue)
            self._take_over(home)

    def _claim(self, queue: str, term: int) -> None:
        """Rule 1."""
        presence = self._desk.presence
        if presence is not None:
            claim = fifo.Claim(queue, term, self._desk.stream)
            self._desk.send(presence.view.coordinator, claim)

    def _resign(self, queue: str) -> None:
        """This node leads no more: its copy is one like any other (rule 3)."""
        self._takeovers.pop(queue, None)
        leader = self._leaders.pop(queue, None)
        if leader is None:
            return
        self._desk.note(f"{queue}: no longer leader of term {leader.home.term}")
        for operation in leader.waiting.gets:  # nothing was leased to them, or they'd not wait
            self._desk.decline(operation, "Unavailable", f"queue {queue!r} changes its leader")

    def _take_over(self, home: Home) -> None:
        queue, copy, desk = home.queue, self._of(home.queue), self._desk
        if home.term < copy.fence:
            self._claim(queue, copy.fence)
            return
        self._begun[queue] = home.term
        self._takeovers[queue] = TakeOver(home, desk.now)
        self._pieces.pop(queue, None)
        self._disk.write(queue, copy.raise_fence(home.term), words.OwnFence(home.term))
        self._seek()

    def _seek(self) -> None:
        """Asks, and asks again, for what take-overs still lack."""
        desk = self._desk
        for queue, taking in list(self._takeovers.items()):
            if taking.asked and later(taking.asked, AGAIN_AFTER) > desk.now:
                continue
            taking.asked, term = desk.now, taking.home.term
            if taking.source and queue in self._pieces:  # else the last of them is being written
                self._ask_piece(queue, taking)
            self._choose(queue, taking)  # a disk may be known to be gone by now
            for keeper in taking.unheard(desk.keeper):
                if keeper != desk.keeper:
                    desk.send(node_of(keeper), words.Fence(queue, term, keeper))
            desk.wake(later(desk.now, AGAIN_AFTER))

    def _ask_piece(self, queue: str, taking: TakeOver) -> None:
        term, head, number = self._pieces[queue]
        bring = words.Bring(queue, term, self._desk.keeper, head, number)
        self._desk.send(node_of(taking.source), bring)

    def _choose(self, queue: str, taking: TakeOver) -> None:
        presence = self._desk.presence
        gone = (
            ()
            if presence is None
            else [one for one in taking.wanted if gone_for_ever((one,), presence)]
        )
        newest = taking.newest(self._desk.keeper, gone)
        if newest is None or taking.source:
            return
        name, head = newest
        if name == self._desk.keeper:
            self._lead(queue, taking)
        else:
            taking.source = name
            self._pieces[queue] = taking.home.term, head, 0
            self._ask_piece(queue, taking)

    def _lead(self, queue: str, taking: TakeOver) -> None:
        """The term begins; it is served when its first step is safe, and that written down."""
        del self._takeovers[queue]
        home, copy = taking.home, self._of(queue)
        followers = {name: Follower() for name in home.mirrors}
        for name, head in taking.heads.items():
            if name in followers:
                followers[name].fenced = True
                followers[name].appended = copy.head.step if head == copy.head else None
        leader = Leader(self._desk, self._disk, self._bodies, copy, home, followers)
        copy.whole = True
        self._leaders[queue] = leader
        if self._alone:
            leader.end_leases()
        leader.tick()
        self._touched[queue] = None

    def _activate(self, leader: Leader) -> None:
        """The first step of a term is safe."""
        presence = self._desk.presence
        if presence is not None and not leader.serving and leader.safe >= leader.begun:
            home = leader.home
            word = fifo.Activate(home.queue, home.term, self._desk.stream)
            self._desk.send(presence.view.coordinator, word)
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def _superseded(self, _: NodeId, word: words.Superseded) -> None:
        leader, taking = self._leaders.get(word.queue), self._takeovers.get(word.queue)
        mine = max(
            0 if leader is None else leader.home.term, 0 if taking is None else taking.home.term
        )
        if 0 < mine < word.term and not self._desk.alarm("a node", word.queue, word.term, mine):
            self._resign(word.queue)
            self._directory.forget(word.queue)
            self._claim(word.queue, word.term)

    # --- as a follower ----------------------------------------------------------------------------

    def _follows(self, source: NodeId, queue: str, term: int) -> Copy | None:
        """The copy that is to go by a term; None when a later one was heard of (rule 3)."""
        copy = self._of(queue)
        if self._desk.presence is None or self._desk.alarm(source, queue, term, copy.fence):
            return None
        if term < copy.fence:
            self._desk.send(source, words.Superseded(queue, copy.fence))
            return None
        leader, taking = self._leaders.get(queue), self._takeovers.get(queue)
        own = leader.home.term if leader else taking.home.term if taking else 0
        if own == term:
            return None  # only this node leads in it
        if 0 < own < term:
            self._resign(queue)
            self._directory.forget(queue)
        return copy

    def _append(self, source: NodeId, step: words.Append) -> None:
        copy = self._follows(source, step.queue, step.term)
        if copy is None:
            return
        queue, keeper, early = step.queue, self._desk.keeper, self._early.get(step.queue, {})
        if copy.whole and copy.flushed >= step.head:
            told = words.Appended(queue, step.term, keeper, copy.flushed)
            self._desk.send(source, told)
        elif copy.whole and copy.head == step.after:
            self._take_step(source, copy, step)
            while (later_one := early.pop(copy.head, None)) is not None:
                self._take_step(source, copy, later_one)
        elif not copy.whole or copy.head < step.after:
            if step.after in early or len(early) >= EARLY_STEPS:
                self._early.pop(queue, None)
                self._desk.send(source, words.Behind(queue, step.term, keeper, copy.told))
            else:  # those before it may be on their way
                self._early.setdefault(queue, early)[step.after] = step

    def _take_step(self, source: NodeId, copy: Copy, step: words.Append) -> None:
        changes = copy.append(step.head, step.records, step.bodies, step.over)
        if step.term > copy.fence:
            changes += copy.raise_fence(step.term)
        told = words.Appended(step.queue, step.term, self._desk.keeper, step.head)
        self._disk.write(step.queue, changes, words.Tell(source, told))

    def _confirm(self, source: NodeId, ask: words.Confirm) -> None:
        if self._follows(source, ask.queue, ask.term) is not None:
            told = words.Confirmed(ask.queue, ask.term, self._desk.keeper, ask.number)
            self._desk.send(source, told)

    def _fence(self, source: NodeId, fence: words.Fence) -> None:
        if fence.keeper != self._desk.keeper:
            return  # another disk's copy is meant
        copy = self._follows(source, fence.queue, fence.term)
        if copy is None:
            return
        told: words.Fenced | words.Behind = words.Fenced(
            fence.queue, fence.term, self._desk.keeper, copy.head
        )
        if not copy.whole:
            told = words.Behind(fence.queue, fence.term, self._desk.keeper, words.NOTHING)
        self._pieces.pop(fence.queue, None)
        self._disk.write(fence.queue, copy.raise_fence(fence.term), words.Tell(source, told))

    def _piece(self, source: NodeId, piece: words.Piece) -> None:
        queue, taking = piece.queue, self._takeovers.get(piece.queue)
        if taking is not None and taking.home.term == piece.term:
            if node_of(taking.source) != source:
                return
            copy = self._of(queue)
        else:
            found = self._follows(source, queue, piece.term)
            if found is None:
                return
            copy = found
            if copy.whole and copy.head >= piece.head:  # it came before
                if copy.flushed >= piece.head:
                    keeper = self._desk.keeper
                    told = words.Appended(queue, piece.term, keeper, copy.flushed)
                    self._desk.send(source, told)
                return
        expected = self._pieces.get(queue)
        if expected is None or expected[:2] != (piece.term, piece.head):
            expected = piece.term, piece.head, 0
        if piece.number != expected[2]:
            return
        self._pieces[queue] = piece.term, piece.head, piece.number + 1
        changes = tuple(copy.stored(piece.bodies))
        if piece.last:
            del self._pieces[queue]
            blocks = (_first(key) for key, _ in piece.records if key[:1] == KIND)
            first = min(blocks, default=1 << 62)
            copy.fence = max(copy.fence, piece.term)
            changes += copy.replace(piece.head, piece.records, first)
            flush: words.Flush = words.Replaced(source, piece.head, piece.term)
        else:
            number, keeper = piece.number + 1, self._desk.keeper
            bring = words.Bring(queue, piece.term, keeper, piece.head, number)
            flush = words.Tell(source, bring)
        self._disk.write(queue, changes, flush)

    # --- as a leader ------------------------------------------------------------------------------

    def _leading(self, queue: str, term: int) -> Leader | None:
        leader = self._leaders.get(queue)
        if leader is None or leader.home.term != term:
            return None
        self._touched[queue] = None
        return leader

    def _appended(self, _: NodeId, word: words.Appended) -> None:
        leader = self._leading(word.queue, word.term)
        if leader is not None:
            leader.appended(word.keeper, word.head)
            self._activate(leader)

    def _is_behind(self, _: NodeId, word: words.Behind) -> None:
        taking, leader = self._takeovers.get(word.queue), self._leading(word.queue, word.term)
        if leader is not None:
            leader.behind(word.keeper, word.head)
        elif taking is not None and taking.home.term == word.term:
            taking.hurt[word.keeper] = None
            self._choose(word.queue, taking)

    def _confirmed(self, _: NodeId, word: words.Confirmed) -> None:
        leader = self._leading(word.queue, word.term)
        if leader is not None:
            leader.confirmed(word.keeper, word.number)

    def _fenced(self, _: NodeId, word: words.Fenced) -> None:
        taking, leader = self._takeovers.get(word.queue), self._leading(word.queue, word.term)
        if leader is not None:
            leader.fenced(word.keeper, word.head)
        elif taking is not None and taking.home.term == word.term:
            taking.heads[word.keeper] = word.head
            self._choose(word.queue, taking)

    # --- copies on their way ----------------------------------------------------------------------

    def _bring(self, source: NodeId, bring: words.Bring) -> None:
        """Somebody wants a piece: a follower of this leader, or who takes over."""
        del source
        queue, keeper = bring.queue, bring.keeper
        leader = self._leaders.get(queue)
        if leader is not None:
            sending = leader.bring(keeper, bring.head)
        else:
            copy = self._of(queue)
            if not copy.whole or bring.term != copy.fence or copy.head != bring.head:
                return
            if bring.number == 0 or (queue, keeper) not in self._sendings:
                self._sendings[queue, keeper] = Sending(copy)
            sending = self._sendings[queue, keeper]
        if sending is not None and sending.head == bring.head:
            self._send_piece(queue, bring.term, keeper, sending, bring.number)

    def _begin_sending(self, _: NodeId, begin: Begin) -> None:
        leader = self._leaders.get(begin.queue)
        follower = None if leader is None else leader.followers.get(begin.keeper)
        if leader is not None and follower is not None and follower.sending is not None:
            term = leader.home.term
            self._send_piece(begin.queue, term, begin.keeper, follower.sending, 0)

    def _send_piece(
        self, queue: str, term: int, keeper: str, sending: Sending, number: int
    ) -> None:
        found = sending.piece(number)
        if found is None:
            return
        batches, last = found
        self._read(
            Reading(
                queue,
                tuple(batches),
                target=f"{keeper} {term}",
                number=number,
                last=last,
                head=sending.head,
            )
        )

    def _read(self, reading: Reading) -> None:
        copy = self._of(reading.queue)
        self._tickets += 1
        self._reading[self._tickets] = reading
        keys = tuple(copy.body_key(batch.key) for batch in reading.batches)
        self._desk.effect(Load(self._tickets, keys))

    def _loaded(self, reading: Reading, found: tuple[Any, ...]) -> None:
        wants = reading.wants
        if reading.fetch is not None:
            self._tell_fetched(reading, found)
            return
        if wants is None:
            self._send_read(reading, found)
            return
        unread: list[Batch] = []
        for batch, one in zip(reading.batches, found, strict=True):
            segment = _read_from(one, batch)
            if segment is None:
                unread.append(batch)
            else:
                wants.hand[batch.start] = segment
                self._bodies.add(reading.queue, batch, segment)
        leader = self._leaders.get(reading.queue)
        if leader is not None:
            leader.read(wants, unread)
            self._touched[reading.queue] = None

    def _send_read(self, reading: Reading, found: tuple[Any, ...]) -> None:
        """A piece whose bodies were read; a leader gets first what it can't read itself."""
        pairs = list(zip(reading.batches, found, strict=True))
        bodies = tuple(words.Body(a.key, one.value) for a, one in pairs if isinstance(one, Record))
        unread = [batch for batch, one in pairs if not isinstance(one, Record)]
        queue, (keeper, _, term) = reading.queue, reading.target.partition(" ")
        leader = self._leaders.get(queue)
        follower = None if leader is None else leader.followers.get(keeper)
        sending = self._sendings.get((queue, keeper)) if follower is None else follower.sending
        if sending is None or sending.head != reading.head:
            return
        if unread and leader is not None:
            leader.lack(unread)
            self._touched[queue] = None
            return
        records = sending.records if reading.last else ()
        piece = words.Piece(
            queue, int(term), reading.head, reading.number, reading.last, bodies, records
        )
        if follower is not None:
            follower.sent = self._desk.now
        elif reading.last:
            self._sendings.pop((queue, keeper))
        self._desk.send(node_of(keeper), piece)

    def _fetch(self, source: NodeId, fetch: words.Fetch) -> None:
        """The leader can't read some bodies."""
        if self._follows(source, fetch.queue, fetch.term) is not None:
            batches = tuple(Batch(start, stop, 0, term) for start, stop, term in fetch.batches)
            self._read(Reading(fetch.queue, batches, fetch=fetch, target=source))

    def _tell_fetched(self, reading: Reading, found: tuple[Any, ...]) -> None:
        fetch = reading.fetch
        assert fetch is not None
        bodies = tuple(
            words.Body(batch.key, one.value)
            for batch, one in zip(reading.batches, found, strict=True)
            if isinstance(one, Record) and _read_from(one, batch) is not None
        )
        told = words.Fetched(fetch.queue, fetch.term, self._desk.keeper, fetch.batches, bodies)
        self._desk.send(NodeId(reading.target), told)

    def _fetched(self, _: NodeId, word: words.Fetched) -> None:
        leader = self._leading(word.queue, word.term)
        if leader is None:
            return
        there = {one.key: one.value for one in word.bodies}
        named = {(start, stop, term) for start, stop, term in word.batches}
        found: dict[Batch, Segment | None] = {}
        for batch in leader.lacking:
            if (batch.start, batch.stop, batch.term) in named:
                value = there.get(batch.key)
                record = None if value is None else Record(batch.key, value)
                found[batch] = _read_from(record, batch)
        leader.fetched(word.keeper, found)

    def _wanted(self, _: NodeId, wants: Wants) -> None:
        self._read(Reading(wants.queue, wants.batches, wants))

    # --- what is flushed --------------------------------------------------------------------------

    def _flushed(self, queue: str, flush: words.Flush) -> None:
        copy = self._of(queue)
        match flush:
            case words.OwnStep(head):
                copy.flushed = head
                leader = self._leaders.get(queue)
                if leader is not None and leader.home.term == head.term:
                    leader.own_flushed(head)
                    self._activate(leader)
            case words.OwnFence(term):
                taking = self._takeovers.get(queue)
                if taking is not None and taking.home.term == term:
                    taking.fenced = True
                    if copy.whole:
                        taking.heads[self._desk.keeper] = copy.head
                    else:
                        taking.hurt[self._desk.keeper] = None
                    self._choose(queue, taking)
            case words.Tell(target, message):
                if isinstance(message, words.Appended):
                    copy.flushed = message.head
                self._desk.send(target, message)
            case words.Replaced(target, head, term):
                copy.flushed = head
                taking = self._takeovers.get(queue)
                if taking is not None and taking.home.term == term:
                    self._lead(queue, taking)
                else:
                    told = words.Appended(queue, term, self._desk.keeper, head)
                    self._desk.send(target, told)
            case words.Mended():
                pass
            case _:
                assert_never(flush)

    # --- the controller's questions ---------------------------------------------------------------

    def _sought(self, source: NodeId, seek: fifo.Seek) -> None:
        names = sorted(name for name in self._copies if name > seek.after)
        held = tuple(
            fifo.Held(one, self._copies[one].fence, self._copies[one].home)
            for one in names[:HELD_AT_ONCE]
        )
        if self._desk.stream:
            more = len(names) > HELD_AT_ONCE
            self._desk.send(source, fifo.Sought(self._desk.stream, seek.after, held, more))

    def _table(self) -> dict[type, Callable[[NodeId, Any], None]]:
        registry, directory = self._registry, self._directory
        return {
            fifo.Home: self._home,
            fifo.Nowhere: lambda _, message: directory.nowhere(message),
            fifo.Rolled: lambda _, message: directory.rolled(message),
            fifo.Where: registry.where,
            fifo.Roll: registry.roll,
            fifo.Claim: lambda _, message: registry.claim(message),
            fifo.Activate: registry.activate,
            fifo.Unreached: lambda _, message: registry.unreached(message),
            fifo.Seek: self._sought,
            fifo.Sought: lambda _, message: registry.sought(message),
            words.Append: self._append,
            words.Appended: self._appended,
            words.Behind: self._is_behind,
            words.Confirm: self._confirm,
            words.Confirmed: self._confirmed,
            words.Fence: self._fence,
            words.Fenced: self._fenced,
            words.Bring: self._bring,
            words.Piece: self._piece,
            words.Fetch: self._fetch,
            words.Fetched: self._fetched,
            words.Superseded: self._superseded,
            Begin: self._begin_sending,
            Wants: self._wanted,
        }

    # --- the door ---------------------------------------------------------------------------------

    def _requested(self, operation: OperationId, request: Any) -> None:
        desk = self._desk
        if desk.presence is None:
            desk.decline(operation, "Unavailable", "this node has no current view of its cluster")
            return
        if type(request) is calls.ListQueues:
            self._directory.roll(lambda names: desk.reply(operation, calls.QueueNames(names)))
            return
        try:
            wrong = problem(request, desk.wall)
        except BadOption as error:
            wrong = str(error)
        if wrong:
            desk.decline(operation, "BadOption", wrong)
        elif type(request) is calls.Open:
            self._open(operation, request)
        elif not self._serve(operation, request):
            self._ask(operation, request.queue, partial(self._point, operation, request))

    def _serve(self, operation: OperationId, request: Any) -> bool:
        """Whether this node leads that queue; then it does what is asked."""
        leader = self._leaders.get(request.queue)
        if leader is None or not leader.serving:
            return False
        self._touched[request.queue] = None
        match request:
            case calls.Put():
                self._put(leader, operation, request)
            case calls.Get():
                leader.get(operation, request)
            case calls.Settle():
                leader.settle(operation, request)
            case calls.Peek() | calls.Describe():
                leader.look(operation, request)
            case calls.Purge() | calls.Pause() | calls.Redrive():
                leader.change(operation, request)
            case _:
                text = f"{type(request).__name__} is not a call of this engine"
                self._desk.decline(operation, "BadOption", text)
        return True

    def _put(self, leader: Leader, operation: OperationId, put: calls.Put) -> None:
        wrong = _problem(put, self._desk.limits.put_items)
        if wrong is not None:
            self._desk.decline(operation, *wrong)
        elif self._disk.full:
            self._desk.decline(operation, "DiskFull", self._disk.full)
        else:
            leader.put(operation, put)

    def _ask(
        self,
        operation: OperationId,
        queue: str,
        told: Callable[[Home | Nowhere], None],
        settings: QueueSettings | None = None,
    ) -> None:
        if not self._directory.ask(queue, told, settings, operation.client):
            text = f"too many queues are looked for at this node to look for {queue!r} as well"
            self._desk.decline(operation, "Unavailable", text)

    def _open(self, operation: OperationId, ask: calls.Open) -> None:
        queue, settings = ask.queue, ask.settings
        if settings is not None:
            try:
                settings.checked()
            except BadOption as error:
                self._desk.decline(operation, "BadOption", str(error))
                return

        def told(home: Home | Nowhere) -> None:
            match home:
                case Home():
                    self._opened(operation, home)
                case Nowhere(error="NoSuchQueue") if settings is None and ask.make:
                    self._ask(operation, queue, told, QueueSettings(replicas=0))
                case Nowhere(error="QueueExists") if settings is None:
                    self._ask(operation, queue, told)
                case Nowhere():
                    self._desk.decline(operation, home.error, home.text)

        self._ask(operation, queue, told, settings)

    def _opened(self, operation: OperationId, home: Home) -> None:
        if self._waits(operation, home):
            return
        presence, master = self._desk.presence, self._place(home.master)
        if presence is None or master is None:  # it is being replaced; the client asks again
            self._directory.forget(home.queue)
            return
        other = self._place(self._desk.chance.choice(list(presence.keepers)))
        opened = calls.Opened(home.queue, home.settings, master, master, other)
        self._desk.reply(operation, opened)

    def _waits(self, operation: OperationId, home: Home) -> bool:
        """Whether nobody who is here can have the queue go on; then the client is told for whom."""
        presence = self._desk.presence
        if presence is None or home.master in presence.keepers:
            return False
        whom = waits(home, presence, self._desk.now)
        if whom is not None:
            self._directory.forget(home.queue)
            self._desk.decline(operation, whom.error, whom.text)
        return whom is not None

    def _point(self, operation: OperationId, request: Any, home: Home | Nowhere) -> None:
        """Somebody else leads this queue; or this node does by now, or will soon (rule 4)."""
        match home:
            case Nowhere():
                self._desk.decline(operation, home.error, home.text)
            case Home():
                place = self._place(home.master)
                if self._serve(operation, request):
                    return
                if place is not None and place.node != self._desk.me:
                    self._desk.reply(operation, Elsewhere(place.node, place.address))
                elif not self._waits(operation, home):  # what this node has heard is old
                    again = partial(self._point, operation, request)
                    self._directory.wait_for_news(request.queue, again)

    def _place(self, keeper: str) -> calls.Place | None:
        presence = self._desk.presence
        member = None if presence is None else presence.keepers.get(keeper)
        return None if member is None else calls.Place(member.id, member.address)


def _nobody(_: Home | Nowhere) -> None:
    """News of a queue is for the node itself."""


def _read_from(found: Any, batch: Batch) -> Segment | None:
    """The bodies of a batch, as they were found on the disk; None for what can't be read."""
    if not isinstance(found, Record):
        return None
    try:
        return unstored(found.value, batch.stop)
    except ValueError:
        return None


def _first(key: bytes) -> int:
    return int.from_bytes(key[1:])


def _problem(put: calls.Put, items_max: int) -> tuple[str, str] | None:
    """Why this put can't be taken, as an error's name and text. Sizes first: they cost nothing."""
    count = len(put.offsets) // 4 - 1
    if put.hold:
        return "BadOption", "hold: this engine stages nothing"
    if count > items_max:
        return "TooLarge", f"{count} items in one put; the limit is {items_max}"
    if len(put.blob) > BODY_BYTES_MAX or put.size > PUT_BYTES_MAX:
        limits = f"{BODY_BYTES_MAX} of bodies, {PUT_BYTES_MAX} with headers"
        return "TooLarge", f"{put.size} bytes in one put; the limits are {limits}"
    try:
        batch = Bodies_of(put.offsets, put.blob)
        if put.headers:
            labels.check_shared(put.headers)
            labels.checked(put.headers, count)
    except ValueError as error:
        return "BadOption", f"the batch does not read: {error}"
    if count == 0 or batch.size != len(put.blob):
        return "BadOption", f"a batch of {count} items in {len(put.blob)} bytes"
    return None
