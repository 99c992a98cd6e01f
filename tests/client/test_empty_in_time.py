"""A get in vain is told so when its time is over: not before, and hardly later."""

import msgspec
import pytest

from snowmelt.client.connection.steps import Query, Sleep
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import Get, Leased, NodeAddress, Open, Opened
from snowmelt.protocols.queue.api.gathered import Gathered
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.runtime.clock import shown

HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 1))


class Cluster:
    """Nodes at the end of a way, with a clock of their own; there is never anything to get."""

    def __init__(self, partitions, way):
        self.now = Instant(seconds(1_000))
        self.gets = 0
        self._settings = QueueSettings(partitions=partitions)
        self._way = way

    def run(self, steps):
        further, answer = steps.send, None
        try:
            while True:
                with shown(self.now):
                    step = further(answer)
                further, answer = steps.send, None
                if isinstance(step, Sleep):
                    self._pass(seconds(step.seconds))
                    continue
                assert isinstance(step, Query)
                begun = self.now
                self._pass(self._way)
                try:
                    answer = self._answer(step.body)
                except NoSuchQueue as error:
                    further, answer = steps.throw, error
                self._pass(self._way)
                assert self.now <= later(begun, seconds(step.timeout)), "nobody would wait for it"
        except StopIteration as end:
            return end.value

    def _pass(self, time):
        self.now = later(self.now, Duration(time))

    def _answer(self, body):
        if type(body) is Open:
            if not self._settings.partitions:
                raise NoSuchQueue("there is none")
            return Opened("q", self._settings, HERE, HERE)
        assert type(body) is Get
        self.gets += 1
        self._pass(body.patience)
        return Gathered(()) if self._settings.partitions > 1 else Leased(0, (), (), seconds(30))


@pytest.mark.parametrize("way", [0.0001, 0.02])
@pytest.mark.parametrize("partitions", [0, 1, 8])
@pytest.mark.parametrize("timeout", [0, 0.5, 1, 10, 300])
def test_nothing_came_is_said_when_the_time_is_over(timeout, partitions, way):
    cluster = Cluster(partitions, seconds(way))
    begun = cluster.now
    steps = FifoSteps("q", None, ProducerSequence())
    assert cluster.run(steps.get_after(None, 1, 1 << 20, timeout)) is None
    took = cluster.now - begun
    assert seconds(timeout) <= took <= seconds(timeout) + milliseconds(50) + 4 * seconds(way)
    assert cluster.gets <= 4


def test_what_is_over_early_by_one_node_is_asked_of_the_next():
    """A node that was restarted says that there is nothing, long before the time is over."""
    cluster = Cluster(1, seconds(0.001))
    answer, said = cluster._answer, []

    def hasty(body):
        if type(body) is Get and not said:
            said.append(body)
            return answer(msgspec.structs.replace(body, patience=Duration(0)))
        return answer(body)

    cluster._answer = hasty
    begun = cluster.now
    steps = FifoSteps("q", None, ProducerSequence())
    assert cluster.run(steps.get_after(None, 1, 1 << 20, 5)) is None
    assert cluster.now - begun >= seconds(5)
