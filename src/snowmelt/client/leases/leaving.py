"""How a loop was left: in good order, or by an exception in its body.

What gives out items one by one does not hear of it. A `for` that is left drops its iterator. At
that moment the frame of the loop stands where it is left. For a `break` or a `return` that is the
instruction that drops a value; for an exception it is whatever raised. The exception itself is kept
from everybody meanwhile, but not from the collector of garbage.

Rules:

1. At an instruction of `ORDERLY` the loop is left in order.
2. A generator around the loop that is ended while it waits is left as its own loop is: the code
   that ends it is looked at. Who calls its `close`, or awaits its `aclose`, leaves it in order, but
   for an exception that is being handled, as `contextlib.closing` does when the body raised one.
3. A task that is being cancelled is left in order, and so is one that is left by an exception which
   stops programs: `KeyboardInterrupt`, `SystemExit`, `GeneratorExit`.
4. All else counts as an exception, known or not: better an item counts one failure too many than
   that an item that ends programs comes back for ever.

5. Where no loop is seen to be left, it may be the collector of garbage that drops the iterator: in
   any thread, within any call and with any lock held. Then nothing is waited for (`GIVEN_UP`).

An iterator in a variable is dropped who knows when; so that it is known how its loop ended, it is
used in a `with`, or closed. An async generator that nobody closes is ended by its event loop, which
does not know either how it was left.
"""

import asyncio
import dis
import gc
import inspect
import sys
from types import FrameType, TracebackType
from typing import Final

from snowmelt.client.leases.reasons import failure_text

ORDERLY: Final = frozenset({"POP_TOP", "POP_ITER", "END_FOR", "END_ASYNC_FOR"})
WAITING: Final = frozenset({"YIELD_VALUE", "RESUME"})
CLOSING: Final = frozenset({"close", "aclose"})
_GENERATOR: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_CALLING: Final = frozenset(
    {"CALL", "CACHE", "GET_AWAITABLE", "LOAD_CONST", "PRECALL", "PUSH_NULL", "SEND"}
)
"""Between the name of a method that is given nothing and where its answer is waited for."""
_NOBODYS: Final = 4
"""References to an exception on its way: its own, and those that counting them here adds."""


GIVEN_UP: Final = "its loop was given up while it was in hand"


def reason_left(frame: FrameType | None, handled: str) -> str:
    """Why a loop that was just dropped in this frame was left; empty when in order.

    `handled` is why it failed if the exception that is being handled was its end.
    """
    trace = None
    while frame is not None:
        word = _instruction(frame)
        if word in ORDERLY:
            return ""
        trace = _trace(frame, any_place=word == "RERAISE")
        if not (frame.f_code.co_flags & _GENERATOR and _ended(word, trace)):
            break
        frame = frame.f_back
    if frame is None or _cancelled():
        return ""
    if trace is None:
        return GIVEN_UP if _called(frame) not in CLOSING or _collecting() else handled
    error = _on_its_way(trace)
    return _place(trace) if error is None else reason_of(error)


def reason_of(error: BaseException | None) -> str:
    """Why a delivery failed that ended with this; empty for none, and for what stops programs."""
    return failure_text(error) if isinstance(error, Exception) else ""


def _ended(word: str, trace: TracebackType | None) -> bool:
    """Whether a generator is being ended; in 3.11 there is no exception yet that would say so."""
    error = None if trace is None else _held(trace)
    return isinstance(error, GeneratorExit) or (error is None and word in WAITING)


def _called(frame: FrameType) -> str:
    """What a frame has called, by its name, if it was given nothing."""
    before = [one for one in dis.get_instructions(frame.f_code) if one.offset <= frame.f_lasti]
    while before and before[-1].opname in _CALLING:
        before.pop()
    return str(before[-1].argval) if before else ""


def _collecting() -> bool:
    """Whether this is within a collection: then another one finds nothing of what is there."""
    circle: list[object] = []
    circle.append(circle)
    del circle
    return gc.collect(1) == 0


def _instruction(frame: FrameType) -> str:
    at = frame.f_lasti
    return dis.opname[frame.f_code.co_code[at]] if at >= 0 else ""


def _cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _trace(frame: FrameType, *, any_place: bool) -> TracebackType | None:
    """The trace of an exception that is leaving this frame."""
    for one in gc.get_referrers(frame):
        if isinstance(one, TracebackType) and (any_place or one.tb_lasti == frame.f_lasti):
            return one
    return None


def _on_its_way(trace: TracebackType) -> BaseException | None:
    """The exception itself, where it can be seen."""
    error = _held(trace)
    if error is not None:
        return error
    young = _young()
    free = [one for one in young if one.__traceback__ is None and sys.getrefcount(one) == _NOBODYS]
    return free[0] if len(free) == 1 else None


def _held(trace: TracebackType) -> BaseException | None:
    """The same, where somebody holds it.

    In 3.11 an exception and its traceback meet only when it is caught. Then it is a young
    exception, and either it was caught on its way before, or nobody holds it.
    """
    for error in gc.get_referrers(trace):
        if isinstance(error, BaseException):
            return error
    way = set[int]()
    at: TracebackType | None = trace
    while at is not None:
        way.add(id(at))
        at = at.tb_next
    return next((one for one in _young() if id(one.__traceback__) in way), None)


def _young() -> list[BaseException]:
    return [
        one
        for generation in (0, 1)
        for one in gc.get_objects(generation)
        if isinstance(one, BaseException)
    ]


def _place(trace: TracebackType) -> str:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"an exception in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
