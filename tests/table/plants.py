"""Plants: wrong behaviours, put round the call itself. Each must make its cell fail.

A plant does wrong only once the disturbance is there (`Sense.hit`), or where it meets it, so it
shows two things: that the disturbance reaches this very call, and that the account sees it.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from table.faces import Row
from table.own import awaits
from table.recipes import DRIVEN, Act

LATE = 4.0
"""Longer than any margin."""


class Sense:
    """What a plant knows: whether the disturbance is there now, and in which process it began."""

    def __init__(self) -> None:
        self.home = os.getpid()
        self.hit = False

    @property
    def abroad(self) -> bool:
        """Whether this is another process than the first one."""
        return os.getpid() != self.home


Call = Callable[[], Any]
Plant = Callable[[Act, Sense], Any]


async def _nothing() -> None:
    """What a coroutine that does nothing is."""


def _none_like(act: Act) -> Any:
    """Nothing, by whichever face: nothing was called."""
    named = getattr(act.call, "__module__", "") or ""
    return _nothing() if named.endswith("_async") else None


def forgets(act: Act, sense: Sense) -> Any:
    """Does nothing, and returns as if it had."""
    return _none_like(act) if sense.hit or sense.abroad else act()


def crashes(act: Act, sense: Sense) -> Any:
    """Does what it should, and raises what is no error of ours."""
    try:
        return act()
    finally:
        if sense.hit or sense.abroad:
            raise OverflowError("int too big to convert")


def swallows(act: Act, sense: Sense) -> Any:
    """Keeps what is thrown in for itself."""
    del sense
    try:
        answer = act()
    except BaseException as error:
        if isinstance(error, Exception) and not getattr(error, "outside", False):
            raise
        return None
    return _swallowing(answer) if awaits(answer) else answer


async def _swallowing(answer: Any) -> Any:
    try:
        return await answer
    except asyncio.CancelledError:
        return None


def lies(act: Act, sense: Sense) -> Any:
    """Returns where it should raise."""
    del sense
    try:
        return act()
    except Exception:
        return None


def tarries(act: Act, sense: Sense) -> Any:
    """Ends long after its time, when the disturbance is there."""
    try:
        return act()
    finally:
        if sense.hit:
            time.sleep(LATE)


def leaks(act: Act, sense: Sense) -> Any:
    """Leaves a thread behind."""
    if sense.hit:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    return act()


def ignores_signals(act: Act, sense: Sense) -> Any:
    """Takes the handler of a signal, and does not give it back."""
    if sense.abroad and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return act()


def twice(act: Act, sense: Sense) -> Any:
    """Asks once more when it took long."""
    begin = time.monotonic()
    answer = act()
    if sense.hit and time.monotonic() - begin > 0.3:
        return act()
    return answer


def keeps_buffers(act: Act, sense: Sense) -> Any:
    """Reads what it is given later, when it is not its own any more."""
    del sense
    given = [
        list(one) if isinstance(one, Iterable) and not isinstance(one, bytearray) else one
        for one in act.arguments
    ]
    if given != list(act.arguments):  # what a generator gave is the same buffer every time
        return Act(act.call, *given, **act.named)()
    threading.Timer(0.05, act).start()
    return None


def overflows(act: Act, sense: Sense) -> Any:
    """Knows no bounds of what it is given."""
    if sense.hit:
        raise OverflowError("int too big to convert")
    return act()


PLANTS: Final[dict[str, Plant]] = {
    one.__name__: one
    for one in (
        forgets, crashes, swallows, lies, tarries, leaks, ignores_signals, twice, keeps_buffers,
        overflows,
    )
}  # fmt: skip


def planted(act: Act, plants: dict[Row, str], sense: Sense) -> Any:
    """The call of the row that is driven, with its plant round it if it has one."""
    plant = plants.get(DRIVEN.get())
    return PLANTS[plant](act, sense) if plant else act()
