"""What a node keeps of a queue, between memory and disk."""

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.record import BULK, Damaged, Missing, Record, Write
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Elements, Origin
from snowmelt.protocols.priority.shelf import Shelf

WHERE = (Share(0, (Interval(4, 6),)),)


def shelved():
    """Two elements, with no room to remember bodies that the disk has."""
    shelf = Shelf(b"q/", Limits(recent=0))
    bodies = Batch.of([b"one", b"two"])
    origin = Origin(OperationId(NodeId("c"), 1), 0, 2)
    shelf.store(Elements(WHERE, (origin,), bytes(bodies.offsets), bytes(bodies.blob)))
    return shelf


def test_what_is_on_no_disk_yet_is_not_read_there():
    shelf = shelved()
    assert shelf.keys(WHERE) == ()
    assert [one.shares for one in shelf.elements(WHERE, ())] == [WHERE]
    ((piece,),) = shelf.pieces((), WHERE)
    assert piece.count == 2


def test_what_is_on_no_disk_yet_is_gathered_as_one_piece():
    shelf, origin = shelved(), Origin(OperationId(NodeId("c"), 2), 0, 1)
    last = Batch.of([b"three"])
    behind = (Share(0, (Interval(8, 9),)),)
    shelf.store(Elements(behind, (origin,), bytes(last.offsets), bytes(last.blob)))
    (piece,) = shelf.gathered((), (Share(0, (Interval(4, 6), Interval(8, 9))),))
    assert piece is not None
    assert piece.blob == b"onetwothree"


def test_what_the_disk_was_asked_to_write_is_read_there_and_may_be_damaged():
    shelf = shelved()
    written = {one.key: one for one in shelf.changes(0) if isinstance(one, Write)}
    (key,) = shelf.keys(WHERE)
    assert key.startswith(BULK)
    found = (Record(key, written[key].value),)
    assert [one.shares for one in shelf.elements(WHERE, found)] == [WHERE]
    assert shelf.unread(WHERE, found) == ()
    assert shelf.unread(WHERE, (Damaged(key),)) == WHERE


def test_what_was_not_found_since_it_is_not_written_yet_can_be_read_all_the_same():
    shelf = shelved()
    key = shelved().changes(0)[0].key
    assert shelf.unread(WHERE, (Missing(key),)) == ()
