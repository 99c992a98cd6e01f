"""What ends in many blocks at once: what it costs to write down, and that it is known again."""

from random import Random

import pytest

from snowmelt.core.interval import Interval, merged
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.endings import ENDED, FOLD
from snowmelt.protocols.queue.state.records import changed, records, restored
from snowmelt.protocols.queue.state.state import QueueState


class Written:
    """A queue, and its records as a disk has them."""

    def __init__(self, items, each):
        self.state, self.disk = QueueState(QueueSettings()), {}
        self.left = Random(7).sample(range(items), 20_000)
        for _ in range(items // each):
            self.state.put(each, 100 * each, term=1)
            self.step()

    def step(self):
        """How many bytes are written."""
        pairs, _ = changed(self.state)
        for key, value in pairs:
            if value is None:
                self.disk.pop(key, None)
            else:
                self.disk[key] = value
        return sum(len(key) + len(value or b"") for key, value in pairs)

    def take_and_acknowledge(self, count, token):
        """Of any; how many bytes each of the two writes."""
        some, self.left = self.left[:count], self.left[count:]
        where = merged([Interval(one, one + 1) for one in some])
        self.state.take(OperationId(NodeId("ann"), token), token, where)
        taken = self.step()
        assert self.state.settle(token, where) == []
        return taken, self.step()

    def size(self, *kinds):
        """Of the records of some kinds."""
        return sum(len(value) for key, value in self.disk.items() if key[:1] in kinds)


@pytest.mark.parametrize(("items", "each"), [(1_000_000, 1000), (100_000, 1)])
def test_a_thousand_of_any_are_acknowledged_in_16_kb(items, each):
    queue = Written(items, each)
    for token in range(20):
        taken, ended = queue.take_and_acknowledge(1000, token)
        assert taken < 5_000
        assert ended < 16_000
    assert queue.size(ENDED) < queue.size(b"b") / FOLD + 10_000


def test_it_is_known_again_at_any_time_and_nothing_stays_behind():
    queue = Written(20_000, 10)
    for token in range(20):
        queue.take_and_acknowledge(1000, token)
        told = restored(queue.state.settings, queue.disk)
        assert records(told) == records(queue.state)
        assert told.batches.live == queue.state.batches.live
        if token % 3 == 0:  # somebody else leads
            queue.state = told
            queue.step()
    assert [key for key in queue.disk if key[:1] in (b"b", ENDED)] == []
