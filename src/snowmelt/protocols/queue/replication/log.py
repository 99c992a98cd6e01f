"""The steps of a term, and what waits until they are safe.

1. Whatever changes while the disk is busy is the next step. It goes to the own disk and to all
   followers at the same time, with the bodies of the puts that are in it.
2. Nothing is told that is not safe: on the disks of as many as must have it (`in_sync.py`).
3. What changed nothing (an empty get, a look, a lease prolonged, a refusal) is told when all that
   it saw is safe, and as many have confirmed, asked after it, that they heard of no later term.
4. While a copy is on its way to somebody, or a backup is read, no body is erased that it names.
   That some may have been kept is written down: whoever leads next erases all of which nothing
   lives.
5. Where flushes may linger, a step waits for no disk: it is safe when as many have taken it. So
   positions are told that are on none. That none is given again a bound above them is, the same for
   all priorities: a step that raises it waits for its flush, and so do all behind it until it is
   safe. Who leads next and may lack steps begins at the bound, and writes down what it leaves out.
6. Data nodes hear only of what is safe which of their bodies are over (`spread.py`).
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import PutDone
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import (
    Append,
    Body,
    EraseBodies,
    Head,
    Owed,
    OwnStep,
    Placed,
    ReplyTo,
    Show,
)
from snowmelt.protocols.queue.replication.follower_progress import Followers
from snowmelt.protocols.queue.replication.in_sync import InSync
from snowmelt.protocols.queue.state.records import changed
from snowmelt.protocols.queue.state.spread import body_key
from snowmelt.protocols.queue.state.state import STATUS, QueueState, gaps
from snowmelt.protocols.queue.store.copy import HOME, Copy
from snowmelt.protocols.queue.store.write_queue import WriteQueue

STEP_BYTES: Final = 4 << 20
"""Of the bodies of several puts in one step: it must fit a frame, with the largest put there is."""
SHOW_COST: Final = 64
"""What is shown may be megabytes: it counts as so much of what is told in one turn."""
BOUND_AHEAD: Final = 1 << 16
"""So far above the last position the bound is set (rule 5)."""


class Log:
    """Of one queue, in one term."""

    def __init__(
        self,
        home: Assignment,
        disk: WriteQueue,
        copy: Copy,
        state: QueueState,
        followers: Followers,
        in_sync: InSync,
    ) -> None:
        self.begun = copy.head.step + 1
        """The first step of this term."""
        self.safe = 0
        """The last step that is."""
        self.confirmed = 0
        """Up to which question it is confirmed that this leader leads."""
        self._home = home
        self._disk = disk
        self._copy = copy
        self._state = state
        self._followers = followers
        self._in_sync = in_sync
        self.rests = False
        """Whether more may be told than was told last."""
        self.lingers = home.settings.linger
        """How late a flush may be (rule 5)."""
        self._bounded = self.begun
        """The last step that raised the bound."""
        self._bodies: list[Body] = []
        """Of puts that are in no step yet."""
        self.bytes = 0
        """Of those bodies."""
        self._placed: deque[tuple[int, Placed]] = deque()
        """What came with bodies and is not safe, and with which step."""
        self._over = gaps(state) if state.keeps else []
        """What is erased once no copy is on its way (rule 4)."""
        self._gathered: list[Owed] = []
        """What is owed when the next step is safe."""
        self._owed: deque[tuple[int, list[Owed]]] = deque()
        self._questions: deque[tuple[int, int, Owed]] = deque()
        """What waits for a step, and for the confirmation of a question (rule 3)."""
        self._confirms: deque[tuple[int, int, Owed]] = deque()
        """The same, of what saw nothing of the state: it is told in turn."""

    def store(self, body: Body, placed: Placed) -> None:
        """These bodies go with the next step."""
        self._bodies.append(body)
        self.bytes += len(body.value)
        self._placed.append((self._copy.head.step + 1, placed))

    def place(self, placed: Placed) -> None:
        """It comes with the next step, and its bodies lie on data nodes."""
        self._placed.append((self._copy.head.step + 1, placed))

    def has_room(self, size: int) -> bool:
        """Whether the next step takes in so many bytes more; a single put it always does."""
        return not self._bodies or self.bytes + size <= STEP_BYTES

    def owe(self, owed: Owed) -> None:
        """It is told with the next step, or when it is confirmed that this one leads (rule 3)."""
        if self._state.changed:
            self._gathered.append(owed)
            return
        self._questions.append((self._copy.head.step, self._followers.asked + 1, owed))
        if self.confirmed == self._followers.asked:
            self._followers.ask()

    def confirm(self, owed: Owed, step: int) -> None:
        """It is told when it is sure that this one leads, and a step is safe: in turn."""
        self._confirms.append((step, self._followers.asked + 1, owed))
        if self.confirmed == self._followers.asked:
            self._followers.ask()

    @property
    def is_settled(self) -> bool:
        """Whether all is safe, and nobody else has to be asked: then what is owed is told now."""
        waits = self._followers.all or self._state.changed or self._confirms
        return not waits and self.safe >= self.head

    def raise_bound(self, bound: int) -> int:
        """Of each priority so many may be told, once the step that is told is safe (rule 5)."""
        self._state.bound = bound
        self._state.changed[STATUS] = None
        self._bounded = self._copy.head.step + 1
        return self._bounded

    def step(self) -> None:
        """All that changed since the last step is the next one, if the disk is free (rule 1)."""
        linger = self._allowed() if self.lingers else Duration(0)
        if self._disk.crowded if linger else self._disk.writing is not None:
            return
        home, copy, state = self._home, self._copy, self._state
        followers = self._followers
        sends = followers.sends if followers.all or followers.backups else False
        if state.keeps != sends:
            state.keeps = sends
            state.changed[STATUS] = None
        pairs, over = changed(state)
        if copy.head.term != home.term:
            pairs = (*pairs, (HOME, msgspec.msgpack.encode(home)))
        over = self._erased(over) if sends or self._over else over
        if state.spread.over and not followers.backups:
            self._spare()
        after, head = copy.head, Head(home.term, copy.head.step + 1)
        bodies, self._bodies, self.bytes = tuple(self._bodies), [], 0
        if self._gathered:
            self._owed.append((head.step, self._gathered))
            self._gathered = []
        step = Append(home.queue, home.term, head, after, pairs, bodies, over, linger)
        self._disk.write(home.queue, copy.append(step), OwnStep(head), linger)
        if self._followers.all:
            self._followers.append(step)
        elif self._copy.traced is not None:
            self._copy.remember(step, head.step)

    def _spare(self) -> None:
        """When this step is safe, data nodes may erase what is over (rule 6)."""
        spared: dict[str, list[bytes]] = {}
        over, self._state.spread.over = self._state.spread.over, []
        for place, lies in over:
            for keeper in lies.nodes:
                spared.setdefault(keeper, []).append(body_key(place, lies))
        self._gathered += [EraseBodies(keeper, tuple(keys)) for keeper, keys in spared.items()]

    def _allowed(self) -> Duration:
        """How late the next step may be flushed; the bound is raised if need be (rule 5)."""
        state = self._state
        several = self._home.settings.priorities > 1
        tail = max(state.tails) if several else state.tails[0]
        if tail + BOUND_AHEAD // 2 > state.bound:
            self.raise_bound(tail + BOUND_AHEAD)
        return self.lingers if self._bounded <= self.safe else Duration(0)

    @property
    def _own(self) -> int:
        """The last step of this term that this node's copy answers for."""
        lingers = self.lingers and self._bounded <= self.safe
        own = self._copy.head if lingers else self._copy.flushed
        return own.step if own.term == self._home.term else 0

    @property
    def copies(self) -> int:
        """How many copies have all that is safe, and so go on with the next step."""
        return 1 + self._followed_to(self.safe) if self._followers.all else 1

    def _followed_to(self, step: int) -> int:
        """How many followers have a step."""
        return sum([(one.appended or 0) >= step for one in self._followers.all.values()])

    def look(self) -> None:
        """Whether other copies are to count from now on (`in_sync.py`)."""
        waits = bool(self._owed or self._questions or self._confirms) or self.safe < self.begun
        self._in_sync.look(self._own, self.safe, self.confirmed, waits=waits)

    def _erased(self, over: tuple[Interval, ...]) -> tuple[Interval, ...]:
        """Of what is over, what nobody needs any more (rule 4)."""
        before, self._over = tuple(self._over), list(over)
        if not self._state.keeps:
            self._over = []
            return (*before, *over)
        if self._followers.sent_anew:
            self._followers.sent_anew = False
            if not self._followers.backups:
                return before
        self._over = [*before, *over]
        return ()

    def due(self, most: int) -> list[Owed]:
        """What may be told now (rules 2 and 3): of thousands so many, and then it rests."""
        self.rests = False
        owes = self._owed or self._questions or self._confirms
        if not owes and self.safe >= self.begun:
            return []
        followers, own = self._followers, self._own
        if followers.all:
            safe, self.confirmed = self._in_sync.has(own), self._in_sync.sure()
        else:
            safe, self.confirmed = own, followers.asked + 1  # the next question, too
        self.safe = safe if safe > self.safe else self.safe
        while self._placed and self._placed[0][0] <= self.safe:
            self._placed.popleft()
        due, room = list[Owed](), most
        confirms = self._confirms
        while confirms and confirms[0][0] <= self.safe and confirms[0][1] <= self.confirmed:
            due.append(confirms.popleft()[2])
        while self._owed and self._owed[0][0] <= self.safe:
            step, owed = self._owed[0]
            due += self._counted(owed[:room], step, own) if followers.all else owed[:room]
            room -= len(owed)
            if room < 0:
                del owed[:room]
                self.rests = True
                return due
            self._owed.popleft()
        while self._questions and self._questions[0][0] <= self.safe:
            if self._questions[0][1] > self.confirmed:
                break
            if room <= 0:
                self.rests = True
                break
            step, _, question = self._questions.popleft()
            room -= SHOW_COST if type(question) is Show else 1
            due += self._counted([question], step, own) if followers.all else [question]
        for some in (self._questions, confirms):
            if some and some[-1][1] > followers.asked == self.confirmed:
                followers.ask()
        return due

    # --- what found no room -----------------------------------------------------------------------

    @property
    def head(self) -> int:
        """The last step that was made."""
        return self._copy.head.step

    def may_be_safe(self, short: set[str]) -> bool:
        """Whether a step may become so where these disks have no room."""
        copies = {self._home.master, *self._followers.all} - short
        return len(copies) >= self._home.settings.copies_needed

    def instead_of_own(self, step: int) -> str:
        """Which of those that count has a step that found no room on this disk; nobody else."""
        if self._own >= step or not self._disk.has_stuck(self._home.queue):
            return ""
        counted, all_ = self._in_sync.members, self._followers.all.items()
        has = [name for name, one in all_ if name in counted and (one.appended or 0) >= step]
        return has[0] if has else ""

    @property
    def spares_own(self) -> bool:
        """Whether enough may have it without the own disk."""
        return len(self._followers.all) >= self._home.settings.copies_needed

    def withdraw(self) -> list[Placed]:
        """What came with bodies and is not safe: none of it stays (`withdrawing.py`)."""
        placed = [one for _, one in self._placed]
        self._placed.clear()
        self._bodies.clear()
        self.bytes = 0
        return placed

    def erases(self) -> bool:
        """Whether the next step erases what waits for a copy on its way (rule 4)."""
        if not self._over:
            return False
        self._followers.send_anew()
        return True

    def answer_anew(self, anew: Callable[[Owed], Owed]) -> None:
        """What is owed is said in this way; what that changes is said with the next step."""
        late: list[Owed] = []

        def kept(some: list[Owed]) -> list[Owed]:
            pairs = [(one, anew(one)) for one in some]
            late.extend([new for one, new in pairs if new is not one])
            return [new for one, new in pairs if new is one]

        self._owed = deque([(step, kept(some)) for step, some in self._owed])
        questions = [(step, asked, one) for step, asked, one in self._questions if kept([one])]
        self._questions = deque(questions)
        self._gathered = [*kept(self._gathered), *late]

    def _counted(self, some: list[Owed], step: int, own: int) -> list[Owed]:
        """Who put is told on how many nodes that is by now, and not on how many it will be."""
        copies = (own >= step) + self._followed_to(step)
        if copies > len(self._followers.all):
            return some
        return [
            ReplyTo(one.operation, replace(one.answer, copies=min(copies, one.answer.copies)))
            if type(one) is ReplyTo and type(one.answer) is PutDone
            else one
            for one in some
        ]
