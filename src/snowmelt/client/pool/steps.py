"""What a program asks of its part in a pool, for both faces: calls, and steps of several."""

from collections.abc import Iterable
from typing import Final

from snowmelt.client.connection.session import checked
from snowmelt.client.connection.steps import ProgressNote, Query, Steps
from snowmelt.client.pool.bodies import Written, several, single
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import Closed, Full
from snowmelt.core.instant import Duration, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool import calls
from snowmelt.runtime.clock import seconds_until, steady_now

BYTES_MAX: Final = 8 << 20
"""So many bytes at most come with one `get_many`, but for an object that alone has more."""


def patience(timeout: float) -> Duration:
    """A time-out as machines count it; none is no time at all."""
    return seconds(max(0.0, checked(timeout)))


def put(body: Buffer, timeout: float, asker: int, written: Written) -> calls.PoolPut:
    """The call that puts one object; `check_kept` looks at its answer.

    The asker is the thread or the task: it finds the room that it heard of.
    """
    parcel = single(body, written)
    return calls.PoolPut(parcel.offsets, parcel.blob, patience(timeout), asker)


def check_kept(answer: calls.PoolReceipt, timeout: float) -> None:
    """Raises `Full` when an object found no room, and `Closed` when its pool was closed before."""
    if answer.closed:
        raise Closed(calls.CLOSED)
    if not answer.count:
        raise Full(
            f"no room was made in {float(timeout):g} s: all buffers of this process are full"
        )


def put_many(
    bodies: Iterable[Buffer] | Batch, timeout: float, asker: int, written: Written
) -> Steps[int]:
    timeout = checked(timeout)
    end = later(steady_now(), seconds(max(0.0, timeout)))
    count = 0
    with ProgressNote("the first {} are in the pool", 0) as so_far:
        for parcel in several(bodies, written):
            left = seconds_until(end)
            part = calls.PoolPut(parcel.offsets, parcel.blob, patience(left), asker)
            so_far.asked = True
            kept: calls.PoolReceipt = yield Query(part, left)
            so_far.asked = False
            count += kept.count
            so_far.told = (count,)
            if kept.closed:
                raise Closed(calls.CLOSED)
            if kept.count < parcel.count:
                raise Full(f"no room was made in {timeout:g} s for all of them")
    return count


def await_room(timeout: float, asker: int) -> Steps[None]:
    """Until there is room for an object of this asker's."""
    yield Query(calls.AwaitRoom(patience(timeout), asker), timeout)


def get(objects_max: int, bytes_max: int, timeout: float) -> calls.PoolGet:
    """The call for objects of one producer; `Got` answers it."""
    return calls.PoolGet(objects_max, bytes_max, patience(timeout), hold=True)


def ack(token: int, intervals: tuple[Interval, ...], timeout: float) -> calls.Ack:
    """The call by which objects are done; it is answered when the producer has confirmed it."""
    return calls.Ack(token, intervals, patience(timeout))


def stats(timeout: float) -> Steps[calls.PeerStatistics]:
    told: calls.PeerStatistics = yield Query(calls.DescribePeer(), checked(timeout))
    return told
