"""The last exam of a life: what is whole then is on so many disks, and comes when one is lost.

Goal: an exam finds a copy that was never made, and takes nothing for one that may be missing.
Method: disks and ledgers by hand; then whole lives.
"""

from random import Random

import pytest

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Persist
from snowmelt.core.record import BULK, Write
from snowmelt.protocols.queue.api.calls import PutDone
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.batches import StoredBatch as Placed
from snowmelt.protocols.queue.state.segments import Segment, stored
from snowmelt_world.disk import Disk
from snowmelt_world.families.fifo_exam import judge_copies
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.judge.values import Put
from snowmelt_world.world import Broken


def at(second):
    return Instant(seconds(second))


def put(ledger, position, value):
    batch = Put("p1", (value,), b"", at(1))
    ledger.asked(batch)
    ledger.done(batch, PutDone(position, position + 1, 2, flushed=True), at(2))


def disk_with(*values):
    """As a keeper has them: a segment each."""
    disk = Disk(Random(0))
    for index, value in enumerate(values):
        body = Batch.of([value.encode()])
        segment = Segment(index, bytes(body.offsets), bytes(body.blob), b"")
        key = Placed(index, index + 1, 1, term=1).key
        under = BULK + b"fifo/q1\0" + key  # of this family, as the host has it
        disk.ask(Persist(index, (Write(under, stored(segment)),)))
    disk.flush()
    return disk


@pytest.fixture
def ledger():
    ledger = Ledger("q1", QueueSettings(replicas=2))
    put(ledger, 0, "one")
    put(ledger, 1, "two")
    return ledger


def test_what_lives_is_on_as_many_disks_as_its_queue_has_replicas(ledger):
    judge_copies(ledger, [disk_with("one", "two"), disk_with(), disk_with("one", "two")])
    with pytest.raises(Broken, match="and two is on 1 disks, not on 2"):
        judge_copies(ledger, [disk_with("one", "two"), disk_with("one"), disk_with()])


def test_what_somebody_tried_to_settle_may_be_on_none(ledger):
    ledger.attempted[1] = None
    judge_copies(ledger, [disk_with("one"), disk_with("one")])


def test_what_can_not_be_read_may_not_be_known_to_lack(ledger):
    whole, hurt = disk_with("one", "two"), disk_with("one", "two")
    assert hurt.flip() is not None
    judge_copies(ledger, [whole, hurt])


def test_what_may_be_lost_need_not_be_anywhere(ledger):
    for node in ("n1", "n2"):
        ledger.excuses.hurt(NodeId(node), at(3), "disk lost")
    judge_copies(ledger, [disk_with(), disk_with()])
