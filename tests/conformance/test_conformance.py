"""The same scenarios in the world, in one process and on loopback: no machine can tell."""

import asyncio

import pytest
from stages import STAGES

from snowmelt.core.outcome import Failed
from snowmelt.protocols.echo import Echo, Echoed, Recall, Recalled, Remember, Remembered
from snowmelt.protocols.membership import Forget
from snowmelt.protocols.membership.messages import Forgotten


@pytest.fixture(params=STAGES, ids=lambda stage: stage.__name__)
def play(request, tmp_path):
    """Plays a scenario on each stage."""

    def play(scenario):
        async def run():
            stage = request.param(tmp_path)
            try:
                await scenario(stage)
            finally:
                await stage.close()

        asyncio.run(run())

    return play


def test_a_node_answers_at_once(play):
    async def scenario(stage):
        await stage.start("n1")
        assert await stage.call("n1", Echo(b"hey")) == Echoed(b"hey")
        assert await stage.call("n1", Echo(b"")) == Echoed(b"")

    play(scenario)


def test_a_large_body_comes_back_whole(play):
    async def scenario(stage):
        body = bytes(range(256)) * 20_000
        await stage.start("n1")
        assert await stage.call("n1", Echo(body)) == Echoed(body)

    play(scenario)


def test_what_was_remembered_survives_the_process(play):
    async def scenario(stage):
        await stage.start("n1")
        for number in range(20):
            name = f"thing {number}"
            assert await stage.call("n1", Remember(name, name.encode())) == Remembered(name)
        await stage.kill("n1")
        await stage.start("n1")
        for number in range(20):
            name = f"thing {number}"
            assert await stage.call("n1", Recall(name)) == Recalled(name, name.encode())
        assert await stage.call("n1", Recall("other")) == Recalled("other", None)

    play(scenario)


def test_a_retry_gets_the_same_answer_and_another_body_is_declined(play):
    async def scenario(stage):
        await stage.start("n1")
        for _ in range(3):
            assert await stage.call("n1", Remember("a", b"first")) == Remembered("a")
        declined = await stage.call("n1", Remember("a", b"second"))
        assert isinstance(declined, Failed)
        assert "'a' was remembered with another body" in declined.reason
        assert await stage.call("n1", Recall("a")) == Recalled("a", b"first")

    play(scenario)


def test_three_nodes_come_into_one_view_and_a_dead_one_is_left_out_until_it_returns(play):
    async def scenario(stage):
        for node in ("n1", "n2", "n3"):
            await stage.start(node)
        before = await stage.in_view_of("n1", "n2", "n3")
        await stage.kill("n3")
        without = await stage.in_view_of("n1", "n2")
        assert without[0].view.epoch > before[0].view.epoch
        await stage.start("n3")
        after = await stage.in_view_of("n1", "n2", "n3")
        assert after[0].view.epoch > without[0].view.epoch
        assert after[0].view.member("n3").birth == before[0].view.member("n3").birth
        assert after[0].view.member("n3").start == before[0].view.member("n3").start + 1

    play(scenario)


def test_members_are_cut_off_without_their_coordinator_and_go_on_when_it_is_back(play):
    async def scenario(stage):
        await stage.start("n1")
        await stage.start("n2")
        before = await stage.in_view_of("n1", "n2")
        await stage.kill("n1")
        await stage.until(lambda status: status.standing == "cut off", "n2")
        await stage.start("n1")
        after = await stage.in_view_of("n1", "n2")
        assert after[0].view.cluster == before[0].view.cluster
        assert after[0].view.epoch > before[0].view.epoch

    play(scenario)


def test_a_departed_node_is_out_at_once_and_its_id_can_be_freed_through_any_node(play):
    async def scenario(stage):
        for node in ("n1", "n2", "n3"):
            await stage.start(node)
        await stage.in_view_of("n1", "n2", "n3")
        refused = await stage.call("n2", Forget("n3"))
        assert isinstance(refused, Failed)
        assert "n3 is present" in refused.reason
        await stage.leave("n3")
        await stage.in_view_of("n1", "n2")
        assert await stage.call("n2", Forget("n3")) == Forgotten("n3")  # n2 sends on to n1

    play(scenario)
