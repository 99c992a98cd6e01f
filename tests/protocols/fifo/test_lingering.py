"""A put whose flush may be late is told at once, and stays in memory until it is on the disk."""

from random import Random

from snowmelt.core.batch import Batch
from snowmelt.core.instant import milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Persist, Persisted, Scan
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.limits import LIMITS
from snowmelt.protocols.fifo.messages import Extent
from snowmelt.protocols.fifo.reading import Budget, Stretch
from snowmelt.protocols.fifo.segments import Segment

BODY = b"x" * (LIMITS.recent_bytes // 2)


def _stored(keeper: Keeper, first: int, told: list[int]) -> None:
    batch = Batch.of([b""])
    offsets = bytes(batch.offsets)[:4] + len(BODY).to_bytes(4, "little")
    segment = Segment(first, offsets, BODY, b"")
    keeper.store(
        "q",
        "n1/1/1",
        segment,
        b"as stored",
        lambda: told.append(first),
        lambda _: None,
        milliseconds(50),
    )


def test_what_is_told_but_not_flushed_is_never_out_of_memory() -> None:
    desk = Desk(NodeId("n1"), Random(0))
    keeper = Keeper(desk, lambda _: None)
    told: list[int] = []
    for first in range(4):  # twice as much as the memory keeps of what is on the disk
        _stored(keeper, first, told)
    assert told == [0, 1, 2, 3]
    read: list[Stretch] = []
    keeper.read("q", Extent("n1/1/1", 0, 1), 0, Budget(1 << 30, 1 << 30), read.append)
    assert [segment.first for stretch in read for segment in stretch.segments] == [0]

    desk.begin_write()
    ticket = next(effect.ticket for effect in desk.taken() if isinstance(effect, Persist))
    desk.written(Persisted(ticket))
    _stored(keeper, 4, told)  # now the oldest may go: the disk has them
    keeper.read("q", Extent("n1/1/1", 0, 1), 0, Budget(1 << 30, 1 << 30), read.append)
    assert any(isinstance(effect, Scan) for effect in desk.taken())
