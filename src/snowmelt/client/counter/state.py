"""How far a counter is, as it travels with its baton.

Numbers below `limit` may be given out only when that limit is on the root's disk. So when the baton
is lost with its holder, and made again from that disk, counting goes on at the limit: what lies
between is a gap, and no number comes twice.
"""

from contextlib import suppress
from typing import Final

import msgspec

from snowmelt.client.baton.steps import BatonHold
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import Steps
from snowmelt.core.errors import BadOption, CallerError, SnowmeltError, TooLarge
from snowmelt.core.interval import Interval
from snowmelt.protocols.baton.settings import baton_name

AT_ONCE_MAX: Final = 1 << 40
AHEAD: Final = 1000
"""How many numbers more are written down as taken, so that not every call waits for a disk."""
_LAST: Final = 1 << 62
_PREFIX: Final = "counter."


class CounterState(msgspec.Struct, frozen=True, array_like=True):
    """The next number, the first that is not written down as taken, and which baton this is of."""

    next: int
    limit: int
    made: int


class NumberRange(msgspec.Struct, frozen=True):
    """Numbers, and the value that may travel on once they are taken."""

    numbers: Interval
    value: bytes
    reserves: bool
    """Whether the value must be on the disk before a number of these is given out."""


def counter_baton(name: str) -> str:
    """The name of the baton that carries a counter.

    >>> counter_baton("ids")
    'counter.ids'
    """
    return baton_name(_PREFIX + baton_name(name))


def counter_name(baton: str) -> str:
    """The name of the counter that a baton carries."""
    return baton.removeprefix(_PREFIX)


def advance(value: bytes, made: int, count: int) -> NumberRange:
    """Takes so many numbers from the value that came with a baton.

    >>> first = advance(b"", 7, 10)
    >>> first.numbers, first.reserves
    (Interval(start=0, stop=10), True)
    >>> then = advance(first.value, 7, 10)
    >>> then.numbers, then.reserves
    (Interval(start=10, stop=20), False)
    >>> advance(first.value, 8, 10).numbers  # the baton was lost, and made again from the disk
    Interval(start=1010, stop=1020)
    """
    tally = _read(value, made)
    start = tally.next if tally.made == made else tally.limit
    stop = start + count
    if stop > _LAST:
        raise TooLarge(f"this counter is at {start}; it ends at {_LAST}")
    reserves = stop > tally.limit
    limit = stop + max(AHEAD, count) if reserves else tally.limit
    onward = msgspec.msgpack.encode(CounterState(stop, limit, made))
    return NumberRange(Interval(start, stop), onward, reserves)


def checked_numbers(count: int) -> int:
    """How many numbers are wanted; raises `BadOption`.

    >>> checked_numbers(0)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: n is 0; allowed: 1 to 1099511627776
    """
    if type(count) is int and 1 <= count <= AT_ONCE_MAX:
        return count
    raise BadOption("n", count, f"1 to {AT_ONCE_MAX}")


def _read(value: bytes, made: int) -> CounterState:
    if not value:
        return CounterState(0, 0, made)
    try:
        tally = msgspec.msgpack.decode(value, type=CounterState)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise _foreign() from error
    if not 0 <= tally.next <= tally.limit:
        raise _foreign()
    return tally


def _foreign() -> CallerError:
    return CallerError(
        "this baton carries no counter: its value was set by hand; take "
        "another name for the counter"
    )


def take(hold: BatonHold, count: int) -> Steps[Interval]:
    """Takes so many numbers and gives the baton up; they are the caller's once that is known.

    When something fails they are nobody's, and the value goes on as it came, or was last saved.
    """
    try:
        step = advance(hold.value, hold.made, count)
        if step.reserves:
            yield from hold.save(step.value, TIMEOUT)
        hold.set_value(step.value)
    except SnowmeltError:
        if not hold.over:
            with suppress(SnowmeltError):  # the first failure is the one to raise
                yield from hold.release(changed=False)
        raise
    yield from hold.release()
    return step.numbers
