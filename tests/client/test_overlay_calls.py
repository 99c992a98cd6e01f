"""What goes in one call to the overlay, and what a get says."""

import asyncio

import pytest

from snowmelt.client.connection.waits import Wait
from snowmelt.client.overlay.parts import parts_of, ranks_of
from snowmelt.client.overlay.steps import Door, OverlaySteps
from snowmelt.client.priority.sorting import sorted_parcel
from snowmelt.client.queue.open_once import OpenOnce
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.calls import Open, Via
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.runtime.clock import shown


def test_a_call_is_one_part_of_any_priorities_and_one_of_each_that_has_a_number():
    bodies, own = [b"%d" % at for at in range(64)], [at % 3 for at in range(64)]
    kinds = QueueSettings(queue="any"), QueueSettings(queue="four", priorities=4)
    (part,), parts = [parts_of(sorted_parcel(bodies, own, ranks_of(one))) for one in kinds]
    assert [len(Batch(one.offsets, one.blob)) for one in (part, *parts)] == [64, 22, 21, 21]
    assert [one.priority for one in parts] == [0, 1, 2]
    assert b"".join([one.blob for one in parts]) == part.blob


@pytest.mark.parametrize("timeout", [0.0, 0.3, 30.0])
def test_a_get_says_how_long_its_answer_is_waited_for(timeout):
    with shown(Instant(seconds(1_000))):
        steps = OverlaySteps("jobs", None)
        via, settings = Via(NodeId("n1"), 1), QueueSettings(queue="jobs", priorities=4)
        steps._door = Door(via, NodeId("n1"), settings, Instant(seconds(2_000)))
        asked = next(steps.ask_lease(5, 1_000, Wait(timeout), (), ahead=False, before=-1))
    assert asked.body.heard == seconds(asked.timeout) > asked.body.patience


def test_who_only_looks_and_who_asks_for_settings_are_answered_each_by_itself():
    asked = []

    class Port:
        async def call(self, body, *_):
            asked.append(body)
            await asyncio.sleep(0)
            return body

    async def scene():
        port = OpenOnce(Port())
        looks, wants = Open("jobs", None, False), Open("jobs", QueueSettings(queue="jobs"), False)
        told = await asyncio.gather(*[port.call(one, 5.0) for one in (looks, wants, looks)])
        assert told == [looks, wants, looks]
        assert asked == [looks, wants]

    asyncio.run(scene())
