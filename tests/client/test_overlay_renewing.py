"""A lease of very many pieces is renewed by several calls, none larger than a node takes."""

import pytest

from snowmelt.client.connection.steps import Query
from snowmelt.client.leases.delivered import Delivered, Portion
from snowmelt.client.leases.steps import PIECES_MAX, Word
from snowmelt.client.overlay.steps import DOOR, Door, OverlaySteps
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.calls import Settled, Via
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.runtime.clock import steady_now

ONE = bytes(8)


def test_each_piece_is_named_once_and_no_call_names_too_many() -> None:
    parts = tuple([Portion(2 * at, ONE, b"", b"", 0, "") for at in range(40_000)])
    delivered = Delivered(7, parts, seconds(60), Instant(0))
    steps = OverlaySteps("jobs", None)
    via, until = Via(NodeId("n1"), 1), later(steady_now(), DOOR)
    steps._door = Door(via, NodeId("n1"), QueueSettings(queue="jobs"), until)
    telling, named = steps.tell(delivered, Word(7, extend=True)), list[int]()
    step = next(telling)
    with pytest.raises(StopIteration) as ended:  # noqa: PT012  a step returns by it
        while True:
            assert isinstance(step, Query)
            intervals = step.body.renew[0].shares[0].intervals
            assert len(intervals) <= PIECES_MAX
            named += [one.start for one in intervals]
            step = telling.send(Settled())
    assert ended.value.value[1] is None
    assert named == [2 * at for at in range(40_000)]
