"""The steps of a group, against a script: what is asked, and what comes of the answers."""

from typing import Any

import pytest

from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.face import Group, GroupSteps
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import SnowmeltError, TooLarge
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import Locate, Located, NodeAddress, Open, Opened, Span
from snowmelt.protocols.queue.api.settings import QueueSettings

HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 1))


class Narrow:
    """A master whose answers have room for so many spans, of one item each; one item is lost."""

    def __init__(self, room: int, lost: int = -1) -> None:
        self.asked: list[tuple[int, int]] = []
        self._room = room
        self._lost = lost

    def call(self, body: Any, timeout: float, *_: Any) -> Any:
        if type(body) is Open:
            return Opened("q", QueueSettings(), HERE, HERE, since=1)
        assert type(body) is Locate
        assert timeout > 0
        self.asked.append((body.after, body.until))
        there = [at for at in range(body.after, body.until) if at != self._lost]
        if len(there) > self._room:
            raise TooLarge("where so many items lie does not fit one answer; ask for fewer")
        spans = tuple(Span(at, at + 1, "s", at, ()) for at in there)
        return Located(spans, body.until - body.after - len(there), 10 * len(there))


def located(master: Narrow, start: Mark, end: Mark) -> Located:
    return Group(master, GroupSteps(FifoSteps("q", None, ProducerSequence()), "g")).locate(
        start, end
    )


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
