"""What threads that share a queue ask of it goes together (`machine.py`), blocking.

There is no thread besides those that ask. A call is made by the caller that has the most time left.
The others wait, each no longer than its own time. They are woken with their answer, or to make the
next call. The lock is held for moments, never while something is sent.

A handler of signals may ask while its own thread is within a call: then it goes alone. It may also
raise, at any place: a caller that is `gone` counts as nobody's, wherever its ticket is by then.
"""

import threading
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from snowmelt.client.coalescing.joint import (
    AGAIN,
    CallerRequest,
    CallKind,
    Value,
    refused,
    sorted_out,
)
from snowmelt.client.coalescing.machine import Coalescer
from snowmelt.client.coalescing.tickets import Bundle
from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.steps import Port, Steps, run
from snowmelt.client.connection.waits import Wait
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant
from snowmelt.runtime.clock import seconds_until, steady_now


class WaitingCaller:
    __slots__ = ("_awake", "asked", "call", "gone", "number", "told", "value")

    def __init__(self, asked: CallerRequest) -> None:
        self.asked = asked
        self.number = 0
        self.call: Bundle | None = None
        """To be made by this thread."""
        self.told = False
        self.value: Value = None
        self.gone = False
        self._awake = allocate_lock()
        self._awake.acquire()

    def wait(self, seconds: float) -> None:
        self._awake.acquire(timeout=seconds)

    def wake(self) -> None:
        with suppress(RuntimeError):  # it is awake
            self._awake.release()

    def tell(self, value: Value) -> None:
        self.value, self.told = value, True
        self.wake()


class ThreadCoalescer:
    """What is asked of one queue, of one kind, by any threads."""

    def __init__(self, port: Port, kind: CallKind) -> None:
        self._port = port
        self._kind = kind
        self.forked()
        watch(self)

    def forked(self) -> None:
        """A child begins anew: the thread that held the lock, or made a call, is not here."""
        self._lock = threading.Lock()
        self._coalescer = Coalescer(self._kind.worth, ordered=self._kind.ordered)
        self._within: set[int] = set()
        """The threads that ask; a change is one step, so it needs no lock."""

    def ask(self, asked: CallerRequest) -> Value:
        """The answer of one caller; raises what it is refused for."""
        me = get_ident()
        if me in self._within:
            return self._alone(asked)
        self._within.add(me)
        lone: Bundle | None = None
        try:
            with self._lock:
                lone = self._coalescer.lone(asked.key, steady_now())
            return (
                self._alone(asked) if lone is not None else _given(self._told(WaitingCaller(asked)))
            )
        finally:
            if lone is not None:
                with self._lock:
                    self._coalescer.back(lone)
                    if self._coalescer.waiting:
                        self._hand_out(self._coalescer.go(steady_now()))
            self._within.discard(me)

    def send(self, timeout: float) -> None:
        """What gathers goes now, and so before whatever this thread asks next.

        It makes the calls itself, and waits for them, unless it has less time than who asked.
        """
        me, until = get_ident(), Wait(timeout).until
        if me in self._within or not self._coalescer.waiting:
            return
        self._within.add(me)
        mine: list[Bundle] = []
        try:
            with self._lock:
                for bundle in self._coalescer.go(steady_now(), all_of_it=True):
                    if max([each.until for each in bundle.tickets]) <= until:
                        mine.append(bundle)
                    else:
                        self._hand_out([bundle])
            while mine:
                self._make(mine[0], self._kind.at_once)
                mine.pop(0)
        finally:
            if mine:  # interrupted
                with self._lock:
                    self._break_off(mine[0])
                    self._hand_out(mine[1:])
            self._within.discard(me)

    def _alone(self, asked: CallerRequest) -> Value:
        some = [asked]
        values, _ = self._kind.share(run(self._port, self._kind.call(some)), some)
        return _given(values[0])

    def _told(self, caller: WaitingCaller) -> Value:
        asked = caller.asked
        call: Bundle | None = None
        try:
            with self._lock:
                now = steady_now()
                caller.number = self._coalescer.ask(
                    caller, asked.key, asked.weight, asked.wait.until
                )
                self._hand_out(self._coalescer.go(now))
                due = self._coalescer.due
            while True:
                call, caller.call = caller.call, None
                if call is not None:
                    self._make(call, self._kind.call)
                elif caller.told:
                    return caller.value
                else:
                    caller.wait(_pause(asked, due))
                    due = self._look(caller) or due
        except BaseException:  # interrupted
            self._leave(caller, call)
            raise

    def _look(self, caller: WaitingCaller) -> Instant | None:
        """Unless it was woken, does what is to be done by now; when to look again."""
        if caller.told or caller.call is not None:
            return None
        now = steady_now()
        with self._lock:
            for ticket, call in self._coalescer.over(now):
                late: WaitingCaller = ticket.what
                late.tell(self._kind.late(late.asked, gone=call != 0))
            if not self._coalescer.waits(caller.number) and not caller.told:
                # Whoever was to tell it was interrupted.
                caller.tell(self._kind.late(caller.asked, gone=True))
            self._hand_out(self._coalescer.go(now))
            return self._coalescer.due

    # --- calls ------------------------------------------------------------------------------------

    def _hand_out(self, bundles: Iterable[Bundle]) -> None:
        """Each to the one of its callers who has the most time."""
        for bundle in bundles:
            callers: list[WaitingCaller] = [
                each.what for each in bundle.tickets if not each.what.gone
            ]
            if callers:
                first = max(callers, key=lambda each: each.asked.wait.until)
                first.call = bundle
                first.wake()
            else:
                for each in bundle.tickets:
                    self._coalescer.answered(each.number)
                self._coalescer.back(bundle)

    def _make(self, bundle: Bundle, call: Callable[[Sequence[CallerRequest]], Steps[Any]]) -> None:
        asked: list[CallerRequest] = [each.what.asked for each in bundle.tickets]
        spare: Value = None
        try:
            answer = run(self._port, call(asked))
        except Exception as error:  # raised where it was asked
            with self._lock:
                self._back(bundle, refused(error, len(asked)))
        else:
            with self._lock:
                here = [
                    None
                    if each.what.gone or not self._coalescer.waits(each.number)
                    else each.what.asked
                    for each in bundle.tickets
                ]
                values, spare = self._kind.share(answer, here)
                self._back(bundle, values)
        if spare is not None:
            with suppress(SnowmeltError):  # the lease will end by itself
                run(self._port, self._kind.unclaimed(spare))

    def _back(self, bundle: Bundle, values: Sequence[Value]) -> None:
        """A call is back, with these answers for its callers."""
        now = steady_now()
        mine = [
            (ticket, value)
            for ticket, value in zip(bundle.tickets, values, strict=True)
            if self._coalescer.within(ticket.number, bundle)
        ]
        for ticket, _ in mine:
            if ticket.what.gone:  # interrupted
                self._coalescer.answered(ticket.number)
        told, again, apart = sorted_out([one for one in mine if not one[0].what.gone])
        for ticket, value in told:
            ticket.what.tell(value)
            self._coalescer.answered(ticket.number)
        self._coalescer.again(again)
        self._hand_out(self._coalescer.apart(apart, now))
        self._coalescer.back(bundle)
        self._hand_out(self._coalescer.go(now))

    def _leave(self, caller: WaitingCaller, made: Bundle | None) -> None:
        """This thread was interrupted, anywhere, and the others were not.

        The call that it made is broken off; what it was to make is made by another.
        """
        caller.gone = True
        with self._lock:
            self._coalescer.leave(caller.number)
            self._coalescer.restore()
            if made is not None:
                self._break_off(made)
            if caller.call is not None:
                self._back(caller.call, [AGAIN] * len(caller.call.tickets))
            self._hand_out(self._coalescer.go(steady_now()))

    def _break_off(self, made: Bundle) -> None:
        """The thread that made it was interrupted."""
        kind, asked = self._kind, [each.what.asked for each in made.tickets]
        self._back(made, [AGAIN if kind.repeats else kind.late(one, gone=True) for one in asked])


def _given(value: Value) -> Value:
    if isinstance(value, BaseException):
        raise value
    return value


def _pause(asked: CallerRequest, due: Instant | None) -> float:
    """Until its own time is over, and then until the line has something to do for it (rule 7)."""
    until = asked.wait.until
    return seconds_until(until if due is None or steady_now() < until < due else due)
