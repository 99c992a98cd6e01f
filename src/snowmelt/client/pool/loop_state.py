"""A loop over a pool, the same for both faces: what it asked for, what has come, and who has it.

1. An object is asked for when it is wanted, and some ahead of that. Whichever comes first is handed
   out first: none waits behind another, and a get that found nothing ends nothing.
2. The loop ends when nothing came for its time, and nothing is on its way then.
3. An object is done when the thread or task that has it asks for the next, unless it was given back
   by then. When the loop is closed or dropped, what is in hand goes back; so does, however it ends,
   what has come and was not handed out. A thread or task whose object went back meanwhile gets an
   error. Who begins the loop anew has left it before, so what was in hand goes back then, too. What
   a thread or task has in hand that ends is nobody's, unless somebody else has it.
4. A loop that ends for one ends for all who share it; what they have in hand stays theirs.
5. A loop may be dropped anywhere, in the middle of a step and with any lock held. So it only leaves
   words, and takes no lock.

Without a `prefetch` of its own a loop asks ahead for what it works off in a moment, as a fifo's
does (`leases.looping`): nothing while an object takes long, and never for many or for much.
"""

from collections import deque
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.takers import Taker
from snowmelt.client.leases.looping import PrefetchSize
from snowmelt.client.pool.loans import ClientLoan, taken
from snowmelt.client.pool.open_pools import OpenPool
from snowmelt.client.pool.steps import BYTES_MAX, patience
from snowmelt.core.errors import LeaseLost
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool.calls import Ack, Got, Nack, PoolGet
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.peer.asking import PendingCall

AHEAD_MOST: Final = 16
"""So many objects at once at most, where that is learnt."""
AHEAD_BYTES: Final = 64 << 20
SEVERAL: Final = 2
"""Where that is learnt, more are asked for when this part of them is left: so with few words."""
CONFIRMED: Final = seconds(TIMEOUT)
"""For so long a producer is asked to confirm what is done. Its answer changes nothing for a loop
that
went on; the machine counts those that came too late."""
ENDING: Final = seconds(5)
"""For so long after its time a loop waits for its gets to end."""


class HeldObject(Protocol):
    open: bool
    intervals: tuple[Interval, ...]

    def closed(self) -> ClientLoan:
        """It is not this program's any more."""


class Waiter(Protocol):
    def answer(self, body: Any) -> object:
        """There is something to look at; called in the owner's thread."""


class ObjectLoopState:
    def __init__(self, part: OpenPool, prefetch: int | None, timeout: float | None) -> None:
        self.part = part
        self.over = False
        self.hands: WeakKeyDictionary[Taker, HeldObject] = WeakKeyDictionary()
        """What was handed out last, by who has it."""
        self._timeout = timeout
        self._learns = prefetch is None
        self._pace = PrefetchSize(None if prefetch is None else prefetch + 1)
        self._settled = 0
        self._largest = 1
        self._enough = 0
        """While so many and one more are here or on their way, nothing is asked for."""
        self._open: dict[PendingCall, None] = {}
        self._came: deque[PendingCall] = deque()
        self._waiting: deque[Waiter] = deque()
        self._failure: PendingCall | None = None
        self._back: WeakSet[Taker] = WeakSet()
        self._origin = Origin()

    # --- one who wants an object ------------------------------------------------------------------

    def begin(self, who: Taker) -> None:
        """What it had is done, and it wants the next."""
        self._origin.check("this loop", "call consume in this one")
        if who in self._back:
            self._back.discard(who)
            raise LeaseLost("the object in hand went back when its loop was closed meanwhile")
        held = self.hands.pop(who, None)
        if held is not None and held.open:
            self._settled += 1
            loan = held.closed()
            if loan.token:
                self.part.engine.check()
                done = Ack(loan.token, held.intervals, CONFIRMED)
                self.part.engine.words.leave(done, soon=False)  # with the next get, or at the end
            loan.told()

    def at_once(self) -> tuple[ClientLoan, Got] | None:
        """The next object, if it is here already; who waits for it has a `wish`."""
        if not self._came or self.over:
            return None
        if self._timeout != 0.0:
            self.ask(TIMEOUT if self._timeout is None else self._timeout)
        return self.take()

    def wish(self) -> "NextObject":
        return NextObject(self, self._timeout)

    def leave(self, who: Taker) -> None:
        """It is not in the loop any more, or not yet: what it has in hand goes back (rule 3)."""
        held = self.hands.pop(who, None)
        if held is not None and not self._origin.left:
            self._give_back(held)

    def ask(self, wait: float) -> int:
        """Asks for as many as are to be on their way now; how many these are more."""
        if len(self._open) + len(self._came) > self._enough:
            return 0
        most = self._pace.next(steady_now(), self._settled)
        self._enough = most - 1
        if self._learns:
            most = max(1, min(most, AHEAD_MOST, AHEAD_BYTES // self._largest))
            self._enough = most // SEVERAL
        begun = 0
        while not self.over and len(self._open) + len(self._came) < most:
            asked = PendingCall(self.part.engine.words, self._told)
            self._open[asked] = None
            try:
                self.part.engine.begin(PoolGet(1, BYTES_MAX, patience(wait), hold=True), asked)
            except BaseException:
                self._open.pop(asked, None)
                raise
            begun += 1
        return begun

    def take(self, wanted: Instant | None = None) -> tuple[ClientLoan, Got] | None:
        """The first that has come, for somebody who has waited for it since then."""
        try:
            asked = self._came.popleft()
        except IndexError:
            return None
        loan, got = taken(asked, self.part.me, once=self.part.once)
        self._largest = max(len(got.blob), self._largest // 2, 1)
        if wanted is not None:
            self._pace.came(wanted, steady_now(), self._settled)
        return loan, got

    def check(self) -> None:
        """Raises what a get met that was neither an object nor nothing."""
        failure, self._failure = self._failure, None
        if failure is not None and not self.over:
            self.part.engine.checked(failure)

    @property
    def empty(self) -> bool:
        return not (self._open or self._came)

    def ready(self, waiter: Waiter) -> bool:
        """Whether there is something to look at; else `waiter` is called when there is."""
        self._waiting.append(waiter)  # first, since an answer may come meanwhile
        return bool(self._came or self.over or self._failure is not None or not self._open)

    def _told(self, asked: PendingCall) -> None:
        """In the owner's thread: a get is answered."""
        if type(asked.body) is Got:
            self._came.append(asked)
            if self.over:
                self._return()
        elif asked.body.error != "Empty":
            self._failure = asked
        self._open.pop(asked, None)  # now: `empty` says that nothing is on its way
        while self._waiting:
            self._waiting.popleft().answer(None)

    # --- its end ----------------------------------------------------------------------------------

    def end(self) -> None:
        """Nothing more is handed out (rule 4)."""
        self.over = True
        if not self._origin.left:
            for asked in list(self._open):
                asked.drop()
            self._return()
            self.part.engine.words.ring()  # for what was done last

    def close(self, who: Taker | None = None) -> None:
        """The same, and what is in hand goes back (rule 3)."""
        self.end()
        for one in () if self._origin.left else list(self.hands):
            held = self.hands.pop(one, None)  # another may close it as well
            if held is not None and self._give_back(held) and one is not who:
                self._back.add(one)

    def _give_back(self, held: HeldObject) -> bool:
        """Whether it was still this program's."""
        if not held.open:
            return False
        loan = held.closed()
        if loan.token:
            self.part.engine.words.leave(Nack(loan.token, held.intervals))
        loan.told()
        return True

    def _return(self) -> None:
        """The last first: each goes in front of those that wait where it came from."""
        with suppress(IndexError):  # another thread may do it as well
            while self._came:
                self._came.pop().give_back()


class NextObject:
    """One next object, and for how long it is wanted."""

    def __init__(self, state: ObjectLoopState, timeout: float | None) -> None:
        self._state = state
        self._since = steady_now()
        self._end = None if timeout is None else later(self._since, seconds(timeout))
        self._asked = False

    def met(self) -> tuple[ClientLoan, Got] | None:
        """It, if it is there; else what is missing is asked for."""
        state = self._state
        left = TIMEOUT if self._end is None else seconds_until(self._end)
        if left or (state.empty and not self._asked):
            self._asked = bool(state.ask(left)) or self._asked
        found = state.take(self._since)
        if found is None:
            state.check()
        return found

    @property
    def over(self) -> bool:
        """Whether nothing comes for it any more."""
        state = self._state
        if state.over:
            return True
        now = steady_now()
        if self._end is None or now < self._end:
            return False
        return (self._asked and state.empty) or now > later(self._end, ENDING)

    @property
    def until(self) -> Instant:
        """For how long to wait at most before it is looked at again."""
        return later(steady_now() if self._end is None else self._end, ENDING)
