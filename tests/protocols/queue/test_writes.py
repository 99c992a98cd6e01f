"""What is to be written, one write at a time."""

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.record import Write
from snowmelt.protocols.queue.disk import AGAIN_AFTER, Disk
from snowmelt.protocols.queue.words import OwnFence


def test_a_write_that_found_no_room_is_tried_again_though_nothing_else_is_written():
    disk, now = Disk(), Instant(seconds(1))
    disk.write("q", (Write(b"a", b"1"),), OwnFence(1))
    first = disk.begin(now)
    assert disk.failed("full", now) == now + AGAIN_AFTER
    assert disk.begin(now) is None
    assert disk.due == now + AGAIN_AFTER
    again = disk.begin(disk.due)
    assert (again.changes, disk.full) == (first.changes, "full")
    assert disk.written() == [("q", OwnFence(1))]
    assert disk.full == ""
