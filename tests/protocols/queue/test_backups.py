"""A backup is as of its first piece, and a queue that is made of one is closed until its last."""

import msgspec
import pytest
from alone import Alone

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import BROKEN, Lot, Restore, Restored, Save, Saved
from snowmelt.protocols.queue.api.deletes import Delete, Deleted
from snowmelt.protocols.queue.api.settings import ANY
from snowmelt.protocols.queue.leader.maintenance.saving import AT_ONCE, GIVES_WAY, READ_WITHIN
from snowmelt.protocols.queue.state.segments import Segment, stored, unstored


def with_items(count=4, **settings):
    alone = Alone.of(**settings)
    for number in range(count):
        alone.put(number)
    alone.flush()
    return alone


def read(alone, backup=7, begun=False):
    """All pieces."""
    if not begun:
        assert isinstance(alone.said(Save("q", backup, 0)), Saved)
    pieces = []
    while not (pieces and pieces[-1].last):
        pieces.append(alone.said(Save("q", backup, len(pieces) + 1)))
    return pieces


def bodies(pieces):
    lots = [lot for piece in pieces for lot in piece.lots]
    segments = [unstored(lot.body, lot.stop) for lot in lots]
    return [bytes(body) for one in segments for body in Batch(one.offsets, one.blob)]


def done(alone):
    """All that is ready is acknowledged."""
    leased = alone.said(calls.Get("q", 9, 1 << 20, seconds(0)))
    edges = [Interval(one.start, one.start + one.count) for one in leased.parts]
    assert isinstance(alone.said(calls.Settle("q", leased.token, tuple(edges))), calls.Settled)


def kept(alone):
    """How many bodies the disk has."""
    return len(list(alone.disk.scan(b"~", b"\x7f", 1 << 30)))


def test_what_ends_meanwhile_is_in_it_and_is_erased_when_it_is_read():
    alone = with_items()
    alone.said(Save("q", 7, 0))
    done(alone)
    alone.put(9)
    alone.flush()
    assert kept(alone) == 5
    assert bodies(read(alone, begun=True)) == [b"item 0", b"item 1", b"item 2", b"item 3"]
    assert alone.said(Save("q", 7, 1, over=True)).gone
    alone.flush()
    assert kept(alone) == 1


def test_who_asks_no_more_keeps_nothing():
    alone = with_items()
    alone.said(Save("q", 7, 0))
    done(alone)
    alone.wait(READ_WITHIN)
    alone.flush()
    assert kept(alone) == 0
    assert alone.said(Save("q", 7, 1)).gone


def test_the_last_piece_may_be_asked_again_and_no_earlier_one():
    alone = with_items(200)
    pieces = read(alone)
    assert len(bodies(pieces)) == 200
    last = len(pieces)
    assert alone.said(Save("q", 7, last)) == pieces[-1]
    assert alone.said(Save("q", 7, last + 2)).gone
    assert alone.said(Save("q", 8, 1)).gone


def test_too_many_at_once_are_refused():
    alone = with_items()
    for backup in range(AT_ONCE):
        assert isinstance(alone.said(Save("q", backup, 0)), Saved)
    assert "are read now" in alone.said(Save("q", 99, 0)).text
    alone.wait(GIVES_WAY)
    assert not alone.said(Save("q", 1, 0)).gone
    assert isinstance(alone.said(Save("q", 99, 0)), Saved)
    assert alone.said(Save("q", 0, 1)).gone, "it had asked for nothing for the longest time"
    assert not alone.said(Save("q", 1, 1)).gone


def test_what_was_leased_is_ready_in_a_queue_that_is_made_of_it():
    alone = with_items()
    alone.said(calls.Get("q", 2, 1 << 20, seconds(0)))
    pieces = read(alone)
    made = Alone.of()
    assert made.said(Restore("q", 7, 0)) == Restored(1)
    for at, piece in enumerate(pieces, start=1):
        ask = Restore("q", 7, at, piece.lots, piece.records)
        assert made.said(ask) == made.said(ask) == Restored(at + 1), "it is taken once"
    refused = made.put(1)
    assert isinstance(refused, Declined)
    assert "is being restored" in refused.text
    made.killed()
    assert made.said(Restore("q", 7, len(pieces) + 1, last=True)) == Restored(len(pieces) + 2, True)
    leased = made.said(calls.Get("q", 9, 1 << 20, seconds(0)))
    assert [one.start for one in leased.parts] == [0] or len(leased.parts) == 4
    made.killed()
    assert made.said(calls.Describe("q")).ready + made.said(calls.Describe("q")).leased == 4
    assert made.said(Restore("q", 7, 0)) == Restored(len(pieces) + 2, True)
    assert made.said(Restore("q", 8, 0)).error == "QueueExists"


LOT = Lot(5, 6, 4, b"", stored(Segment(5, bytes(4) + b"\x04\0\0\0", b"body", b"", 1)))


@pytest.mark.parametrize(
    "piece",
    [
        {"lots": (LOT, LOT)},
        {"lots": (msgspec.structs.replace(LOT, start=4),)},
        {"lots": (msgspec.structs.replace(LOT, body=LOT.body[:-1]),)},
        {"lots": (msgspec.structs.replace(LOT, body=b"\xc1"),)},
        {"lots": (msgspec.structs.replace(LOT, size=1 << 40),)},
        {"lots": (msgspec.structs.replace(LOT, left=b"\x92\x00\x02"),)},
        {"lots": (msgspec.structs.replace(LOT, left=b"\x93\x01\x01\x01"),)},
        {"lots": (Lot(1 << 60, (1 << 60) + 1, 4, b"", LOT.body),)},
        {"lots": (Lot(1 << 48, (1 << 48) + 1, 4, b"", LOT.body),)},
        {"records": ((b"b" + bytes(8), b"\x90"),)},
        {"records": ((b"l" + bytes(8), b"\x90"),)},
        {"records": ((b"s", b"\x90"),)},
        {"records": ((b"s", b"\xff"),)},
        {"records": ((b"y", b"\x92\x01\x92\x01\xa0"),)},
        {"records": ((b"y" + bytes(20), b"\x92\x01\x92\x01\xa0"),)},
        {"records": ((b"z" + b"\xff" * 8, b"\x92\x01\x01"),)},
        {"records": ((b"p\xff\xfe", b"\x90"),)},
        {"records": ((b"g" + b"x", b"\x96\x01\xa1x\xff"),)},
        {"records": ((b"k", b"odd"),)},
        {"records": ((b"u" + b"x", b"\x92\x01\x01"),)},
        {"records": ((b"v", b"\x93\x01"),)},
        {"records": ((b"t" + bytes(3), b"\x01"),)},
    ],
    ids=str,
)
@pytest.mark.parametrize("priorities", [1, ANY])
def test_a_piece_that_is_no_piece_is_refused_and_changes_nothing(piece, priorities):
    made = Alone.of(priorities=priorities)
    made.said(Restore("q", 7, 0))
    refused = made.said(Restore("q", 7, 1, **piece))
    assert (refused.error, "does not read" in refused.text) == ("BadOption", True)
    assert made.said(Restore("q", 7, 0)) == Restored(1)
    made.said(Restore("q", 7, 1, last=True))
    assert made.said(calls.Describe("q")).ready == 0


def status(tail):
    return b"s", msgspec.msgpack.encode((tail, 0, 0, False, 0))


def moments(first, stop):
    """Of so many schedules."""
    return tuple((b"ms%d" % at, b"\x91\x05") for at in range(first, stop))


GROUP = msgspec.msgpack.encode((7, "r", 0, [[5, 6]], 0))
WHOLES = {
    "items above all that were given": [{"lots": (LOT,)}],
    "a position that nobody can count to": [{"records": (status((1 << 64) - 1),)}],
    "more schedules than there may be": [
        {"records": moments(0, 200)},
        {"records": moments(200, 400)},
    ],
    "an item of two groups": [
        {"records": ((b"ga", GROUP), (b"gb", GROUP), status(9))},
        {"lots": (LOT,)},
    ],
}


@pytest.mark.parametrize("whole", WHOLES)
def test_pieces_that_are_none_of_a_queue_together_are_refused(whole):
    made = Alone.of()
    made.said(Restore("q", 7, 0))
    told, number = None, 1
    for piece in (*WHOLES[whole], {"last": True}):
        told = made.said(Restore("q", 7, number, **piece))
        if isinstance(told, Declined):
            break
        number = told.next
    assert isinstance(told, Declined)
    made.killed()
    assert "is being restored" in made.put(1).text
    assert isinstance(made.said(Delete("q")), Deleted)


def test_the_pieces_of_another_backup_are_refused():
    made = Alone.of()
    made.said(Restore("q", 7, 0))
    assert made.said(Restore("q", 8, 0)).error == "QueueExists"
    assert made.said(Restore("q", 7, 5)) == Restored(1)


def test_a_queue_that_was_used_takes_none():
    alone = with_items()
    refused = alone.said(Restore("q", 7, 0))
    assert (refused.error, "--as" in refused.text) == ("QueueExists", True)
    assert BROKEN > 0
