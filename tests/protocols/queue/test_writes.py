"""What is to be written, one write at a time."""

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.record import Erase, Write
from snowmelt.protocols.queue.messages.words import OwnFence
from snowmelt.protocols.queue.store.write_queue import AGAIN_AFTER, WriteQueue


def told(jobs):
    """Of which queues, and what for."""
    return [(queue, flush) for queue, _, flush in jobs]


def test_a_write_that_found_no_room_is_tried_again_though_nothing_else_is_written():
    disk, now = WriteQueue(), Instant(seconds(1))
    disk.write("q", (Write(b"a", b"1"),), OwnFence(1))
    first = disk.begin(now)
    assert told(disk.failed("full", now)) == [("q", OwnFence(1))]
    due = disk.begin(now)
    assert due == now + AGAIN_AFTER
    again = disk.begin(due)
    assert (again.changes, disk.full) == (first.changes, "full")
    assert told(disk.written()) == [("q", OwnFence(1))]
    assert disk.full == ""


def test_what_found_no_room_does_not_hold_up_other_queues():
    disk, now = WriteQueue(), Instant(seconds(1))
    for queue in ("q", "other"):
        disk.write(queue, (Write(b"~" + queue.encode(), b"1"),), OwnFence(1))
    disk.begin(now)
    disk.failed("full", now)
    tried = [disk.begin(now).changes[0].key]
    disk.failed("full", now)
    tried.append(disk.begin(now).changes[0].key)
    assert tried == [b"~q", b"~other"]
    assert told(disk.written()) == [("other", OwnFence(1))]
    assert disk.full == "full"
    disk.write("third", (Write(b"a", b"1"),), OwnFence(1))
    assert disk.begin(now).changes == (Write(b"a", b"1"),)
    assert told(disk.written()) == [("third", OwnFence(1))]
    due = disk.begin(now)
    assert due == now + AGAIN_AFTER
    assert [one.key for one in disk.begin(due).changes] == [b"~q"]


def test_a_body_that_is_erased_before_there_was_room_for_it_is_not_written():
    disk, now = WriteQueue(), Instant(seconds(1))
    record = Write(b"r", b"1")
    disk.write("q", (Write(b"~q1", b"1"), record, Write(b"~q2", b"1")), OwnFence(1))
    disk.begin(now)
    disk.failed("full", now)
    disk.write("q", (Write(b"r", b"2"), Erase(b"~q1", b"~q2")), OwnFence(2))
    assert disk.begin(now) == now + AGAIN_AFTER, "one is there still"
    disk.write("q", (Write(b"r", b"3"), Erase(b"~q2", b"~q3")), OwnFence(3))
    changes = disk.begin(now).changes
    assert [one for one in changes if isinstance(one, Write)] == [
        Write(b"r", b"1"),
        Write(b"r", b"2"),
        Write(b"r", b"3"),
    ]
    assert told(disk.written()) == [("q", OwnFence(number)) for number in (1, 2, 3)]
    assert disk.full == ""
