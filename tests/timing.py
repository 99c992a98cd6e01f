"""How long a call takes, on a machine that has other things to do too."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from snowmelt.core.errors import OutcomeUnknown

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
TRIES = 3
PATIENCE = 20.0


def in_time(most: float, call: Callable[[], T], least: float = 0.0) -> T:
    """What a call returns that may take so many seconds, and never fewer than the least.

    A machine that is busy may hold a call up, and a fault does it each time: so it is one of three.
    """
    for _ in range(TRIES):
        begin = time.monotonic()
        told = call()
        took = time.monotonic() - begin
        assert took >= least, f"it took {took:.3f} s, and should take {least} s"
        if took < most:
            return told
    raise AssertionError(f"it took longer than {most} s {TRIES} times, the last {took:.3f} s")


def in_vain(error: type[E], call: Callable[[], object]) -> E:
    """What a node answers when somebody waited for nothing.

    Such an answer counts for some 50 ms after the wait. A node that is busy may be later, and then
    its caller knows nothing, and asks again.
    """
    for _ in range(10):
        try:
            call()
        except error as told:
            return told
        except OutcomeUnknown:
            continue
        raise AssertionError("it was not in vain")
    raise AssertionError("it was not answered in its time 10 times")


def until(so: Callable[[], object]) -> None:
    """Returns once it is so; not quite for ever, for then it never is."""
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.002)


@contextmanager
def quick_turns() -> Iterator[None]:
    """A thread that computes is not long before it lets another."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
