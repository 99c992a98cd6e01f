"""What the disk of a node shows of a priority queue, to the exam of a life (`priority_exam.py`)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.record import BULK, Record
from snowmelt.protocols.priority.queue import prefix_of
from snowmelt.protocols.priority.recent import Bulk
from snowmelt.protocols.priority.rows import Rows
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.sim.disk import Disk
from snowmelt.sim.judge.values import Place

_PREFIX: Final = b"priority/"


def bodies(disk: Disk, queue: str) -> Iterator[str]:
    """What of a queue can be read there."""
    begin = BULK + _PREFIX + prefix_of(queue)
    for one in disk.load(key for key in disk.copy().keys if key.startswith(begin)):
        if isinstance(one, Record):
            bulk = msgspec.msgpack.decode(one.value, type=Bulk)
            yield from [bytes(body).decode() for body in Batch(bulk.offsets, bulk.blob)]


def kept(disk: Disk, settings: QueueSettings) -> Rows | None:
    """What of a queue is on a disk; None where a record of it can't be read."""
    prefix = prefix_of(settings.queue)
    begin, started = _PREFIX + prefix, disk.start()
    large = disk.load(one for one in disk.copy().keys if one.startswith(BULK + begin))
    if any(key.startswith(begin) for key in started.damaged):
        return None
    if not all(isinstance(one, Record) for one in large):
        return None
    shelf = Shelf(prefix, settings=settings)
    for record in started.records:
        if record.key.startswith(begin):
            shelf.restore(record.key.removeprefix(_PREFIX), record.value)
    return shelf.rows


def has(rows: Rows | None, place: Place) -> bool | None:
    """Whether an element is there; None where nobody knows."""
    if rows is None:
        return None
    where = Interval(place.position, place.position + 1)
    return bool(rows.row(place.priority).here.common(where))
