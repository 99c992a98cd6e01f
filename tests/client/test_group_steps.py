"""The steps of a group, against a script: what is asked, and what comes of the answers."""

from collections.abc import Callable
from typing import Any

import pytest

from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.priority.group_steps import PriorityGroupSteps
from snowmelt.client.priority.notes import Note
from snowmelt.client.priority.steps import PrioritySteps
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.client.queue.groups import Group, GroupSteps
from snowmelt.client.queue.options import Producer
from snowmelt.core.batch import Batch
from snowmelt.core.errors import SnowmeltError, TooLarge
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Open, Opened, Show, Shown, Via
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.settings import ANY, QueueSettings
from snowmelt.protocols.queue.calls import Locate, Located, Span


class Narrow:
    """A master whose answers have room for so many spans, of one item each; one item is lost."""

    def __init__(self, room: int, lost: int = -1) -> None:
        self.asked: list[tuple[int, int]] = []
        self._room = room
        self._lost = lost

    def call(self, body: Any, timeout: float, *_: Any) -> Any:
        assert type(body) is Locate
        assert timeout > 0
        self.asked.append((body.after, body.until))
        there = [at for at in range(body.after, body.until) if at != self._lost]
        if len(there) > self._room:
            raise TooLarge("where so many items lie does not fit one answer; ask for fewer")
        spans = tuple(Span(at, at + 1, "s", at, ()) for at in there)
        return Located(spans, body.until - body.after - len(there), 10 * len(there))


def located(master: Narrow, start: Mark, end: Mark) -> Located:
    return Group(master, GroupSteps(FifoSteps("q", None, Producer()), "g")).locate(start, end)


@pytest.mark.parametrize("room", [1, 3, 7, 99, 100, 1000])
def test_where_items_lie_is_asked_for_in_as_many_pieces_as_the_answers_need(room: int) -> None:
    master = Narrow(room, lost=50)
    found = located(master, Mark(7, 10), Mark(7, 110))
    assert [span.start for span in found.spans] == [at for at in range(10, 110) if at != 50]
    assert (found.lost, found.bytes) == (1, 990)
    assert len(master.asked) <= 2 * 100 // room + 10


def test_nothing_is_asked_once() -> None:
    master = Narrow(1)
    assert located(master, Mark(7, 5), Mark(7, 5)) == Located((), 0, 0)
    assert located(master, BEGINNING, BEGINNING) == Located((), 0, 0)
    assert master.asked == [(5, 5), (0, 0)]


def test_one_item_that_does_not_fit_is_not_asked_for_for_ever() -> None:
    master = Narrow(0)
    with pytest.raises(SnowmeltError, match="ask for fewer"):
        located(master, BEGINNING, Mark(7, 4))
    assert master.asked == [(0, 4), (0, 2), (0, 1)]


def ended(steps: Steps[Any], answered: Callable[[Any], Any]) -> Any:
    """What steps come to, without a wait."""
    try:
        step = next(steps)
        while True:
            step = steps.send(answered(step.body) if isinstance(step, Query) else None)
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize("largest_first", [False, True])
@pytest.mark.parametrize("priorities", [4, ANY])
def test_a_batch_is_read_in_one_order_whoever_tells_of_his_part_first(
    priorities: int, largest_first: bool
) -> None:
    settings = QueueSettings(queue="q", priorities=priorities, largest_first=largest_first)
    opened = Opened(settings, Via(NodeId("n1"), 1), Address("127.0.0.1", 1))
    keyed = priorities == ANY

    def piece(priority: int, start: int) -> Piece:
        body, row = Batch.of([b"%d.%d" % (priority, start)]), 0 if keyed else priority
        keys = packed([priority]) if keyed else b""
        return Piece(row, start, bytes(body.offsets), bytes(body.blob), keys=keys)

    pieces = [piece(2, 7), piece(1, 9), piece(2, 3), piece(3, 8)]
    shares = tuple(Share(one.priority, (Interval(one.start, one.start + 1),)) for one in pieces)
    note = Note(5, (Share(0, (Interval(3, 4), Interval(7, 10))),) if keyed else shares, 0)
    shown = list(pieces)

    def answered(ask: Any) -> Any:
        assert isinstance(ask, Open | Show)
        return opened if isinstance(ask, Open) else Shown((shown.pop(0),), note.shares, ())

    told = ended(PriorityGroupSteps(PrioritySteps("q", None), "g").read(note, 10), answered)
    told = [bytes(next(iter(Batch(one.offsets, one.blob)))) for one in told]
    rows = [b"3.8", b"2.3", b"2.7", b"1.9"] if largest_first else [b"1.9", b"2.3", b"2.7", b"3.8"]
    assert told == rows
