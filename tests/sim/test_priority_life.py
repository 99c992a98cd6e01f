"""The priority queue's lives: old wounds, and planted bugs that the world must find."""

import pytest

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.messages import Elements, Mark, Origin
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.sim.families import family
from snowmelt.sim.faults import KINDS
from snowmelt.sim.life import Ending, live
from snowmelt.sim.scenario import drawn

# Each of these lives showed what is named, before it was mended.
SEEDS = (
    2,  # a flush that an earlier view's home had waited for was told to the new view's
    18,
    11,  # largest first, a get that went on with its lease after a view came in the wrong order
    15,  # a node cut off and accepted again into the same view settled anew, alone, for ever
    28,
    35,
    41,
    25,  # a put redone in part: two operations got one order
    26,  # a put redone in part was declined, while its first part stayed in the queue
    62,  # "there is no such queue", said by one that had not heard of all queues yet
    125,  # a put that one of its homes had no room for was declined, and done anew
    166,  # what is gone was counted off once for each time that it was told
    303,
    206,  # a body that nobody can read held up all that was granted with it
    249,
    340,  # an inquiry counted a copy that its home knew to be void
    262,  # a body that its own home could not read came with no lease, again and again
    455,
)


def lived(seed):
    return live(drawn("priority", seed, KINDS, theme=None), family("priority"))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_once_went_wrong_goes_well(seed):
    report = lived(seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


def test_of_a_stretch_that_is_void_in_part_the_rest_is_outdated_too():
    operation, later = OperationId(NodeId("c"), 1), (Share(0, (Interval(90, 92),)),)
    shelf = Shelf(b"q/")
    bodies = Batch.of([b"one", b"two"])
    first = Origin(operation, 0, 2)
    where = (Share(0, (Interval(4, 6),)),)
    shelf.store(Elements(where, (first,), bytes(bodies.offsets), bytes(bodies.blob)))
    shelf.mark(Mark((Share(0, (Interval(4, 5),)),), 1, 0, State.VOID))
    rest = (Share(0, (Interval(5, 6),)),)
    assert [share for _, share in shelf.made_by(operation)] == list(rest)
    assert shelf.outdated(Origin(operation, 0, 2, again=True), later[0]) == rest
