"""How a loop was left: in good order, or by an exception in its body.

Whoever gives out items one by one is not told. A `for` that is left drops its iterator, and at that
moment the frame of the loop stands where it is left: at the instruction that drops a value, for a
`break` or a `return`; at whatever raised, for an exception. The exception itself is kept from
everybody meanwhile, but not from the collector of garbage.

Rules:

1. At an instruction of `ORDERLY` the loop is left in order.
2. A generator around the loop that is closed while it waits is left as its own loop is: one looks
   at whoever closes it.
3. A task that is being cancelled is left in order, and so is one that is left by an exception which
   stops programs: `KeyboardInterrupt`, `SystemExit`, `GeneratorExit`.
4. All else counts as an exception, known or not: better an item counts one failure too many than
   that an item that ends programs comes back for ever.

5. Where no loop is seen to be left, it may be the collector of garbage that drops the iterator: in
   any thread, within any call and with any lock held. Then nothing is waited for (`GIVEN_UP`).

An iterator in a variable is dropped who knows when; so that it is known how its loop ended, it is
used in a `with`, or closed.
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
_NOBODYS: Final = 4
"""References to an exception on its way: its own, and those of whoever counts them here."""


GIVEN_UP: Final = "its loop was given up while it was in hand"


def reason_left(frame: FrameType | None) -> str:
    """Why a loop whose iterator was just dropped in this frame was left; empty when in order."""
    while frame is not None:
        word = _instruction(frame)
        if word in ORDERLY:
            return ""
        if not (word in WAITING and frame.f_code.co_flags & inspect.CO_GENERATOR):
            break
        frame = frame.f_back
    if frame is None or _cancelled():
        return ""
    trace = _trace(frame, any_place=word == "RERAISE")
    if trace is None:
        return GIVEN_UP
    error = _on_its_way(trace)
    return _place(trace) if error is None else reason_of(error)


def reason_of(error: BaseException | None) -> str:
    """Why a delivery failed that ended with this; empty for none, and for what stops programs."""
    return failure_text(error) if isinstance(error, Exception) else ""


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
    for error in gc.get_referrers(trace):
        if isinstance(error, BaseException):
            return error
    return _unheld(trace)


def _place(trace: TracebackType) -> str:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"an exception in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"


def _unheld(first: TracebackType) -> BaseException | None:
    """In 3.11 an exception and its traceback meet only when it is caught.

    Then it is a young exception, and either it was caught on its way before, or nobody holds it.
    """
    trace: TracebackType | None = first
    way = set[int]()
    while trace is not None:
        way.add(id(trace))
        trace = trace.tb_next
    young = [
        one
        for generation in (0, 1)
        for one in gc.get_objects(generation)
        if isinstance(one, BaseException)
    ]
    caught = [one for one in young if id(one.__traceback__) in way]
    if caught:
        return caught[0]
    free = [one for one in young if one.__traceback__ is None and sys.getrefcount(one) == _NOBODYS]
    return free[0] if len(free) == 1 else None
