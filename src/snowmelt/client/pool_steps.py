"""A program's part in a pool, as steps that both faces take; see `steps.py`."""

from collections.abc import Iterable
from time import monotonic
from typing import Final

from snowmelt.client.pool_bodies import several, single
from snowmelt.client.session import checked
from snowmelt.client.steps import Query, Steps
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import Full
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool.calls import (
    Ack,
    AwaitRoom,
    Describe,
    Get,
    Got,
    Kept,
    Nack,
    PeerStatistics,
    Put,
    Stop,
    Stopped,
)

BYTES_MAX: Final = 8 << 20
"""So many bytes at most come with one `get_many`, but for an object that alone has more."""


def patience(timeout: float) -> Duration:
    """A time-out as machines count it; none is no time at all."""
    return seconds(max(0.0, checked(timeout)))


def put(body: Buffer, timeout: float) -> Steps[None]:
    """One object."""
    parcel = single(body)
    ask = Put(parcel.offsets, parcel.blob, patience(timeout))
    kept: Kept = yield Query(ask, timeout)
    if not kept.count:
        raise Full(f"no room was made in {timeout:g} s: all buffers of this process are full")


def put_many(bodies: Iterable[Buffer] | Batch, timeout: float) -> Steps[int]:
    """Several objects; how many."""
    end = monotonic() + checked(timeout)
    count = 0
    for parcel in several(bodies):
        left = max(0.0, end - monotonic())
        kept: Kept = yield Query(Put(parcel.offsets, parcel.blob, patience(left)), left)
        count += kept.count
        if kept.count < parcel.count:
            error = Full(f"no room was made in {timeout:g} s for all of them")
            error.add_note(f"the first {count} are in the pool")
            raise error
    return count


def await_room(timeout: float) -> Steps[None]:
    """Until there is room for an object."""
    yield Query(AwaitRoom(patience(timeout)), timeout)


def get(objects_max: int, bytes_max: int, timeout: float) -> Steps[Got]:
    """Objects of one producer."""
    got: Got = yield Query(Get(objects_max, bytes_max, patience(timeout)), timeout)
    return got


def ack(token: int, intervals: tuple[Interval, ...], timeout: float) -> Steps[None]:
    """Objects are done, and the producer has confirmed it."""
    if token:
        yield Query(Ack(token, intervals, patience(timeout)), timeout)


def nack(token: int, intervals: tuple[Interval, ...], timeout: float) -> Steps[None]:
    """Objects go back."""
    if token:
        yield Query(Nack(token, intervals), timeout)


def stats(timeout: float) -> Steps[PeerStatistics]:
    """How this part is."""
    told: PeerStatistics = yield Query(Describe(), timeout)
    return told


def stop(timeout: float) -> Steps[int]:
    """Leaves in order; how many objects nobody took."""
    stopped: Stopped = yield Query(Stop(patience(timeout)), timeout)
    return stopped.left
