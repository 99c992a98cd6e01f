"""Lives with steps from queue to queue, under all faults: nothing is lost, and nothing doubled."""

from functools import cache

import pytest
from msgspec.structs import replace

from snowmelt.client.queue import step_parts
from snowmelt.core.errors import Full, OutcomeUnknown
from snowmelt.core.instant import Instant, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.drains import Drain
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.leader.transacting import Transacting
from snowmelt.protocols.queue.state.producers import Producers
from snowmelt.protocols.queue.state.staged import StagedBatches
from snowmelt.protocols.queue.state.transactions import Transactions
from snowmelt_world.families.queue import HURTS
from snowmelt_world.families.queue_steps import StepLife
from snowmelt_world.faults import Delay, RollingRestart
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from wide import wide

KEEPING = tuple(
    [kind for kind in kinds_of("queue") if kind not in {one.__struct_config__.tag for one in HURTS}]
)
"""All faults but those that take what there are copies of."""
DRAINED_FOR = seconds(3)
DRAINS = 1 << 33
"""Numbers of who asks for that begin here."""


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("queue", seed, kinds, coordinator=coordinator), StepLife)


unplanted = cache(lived)
"""A life as the code is goes the same way each time."""


# 532: a look at what waits did not show what a get had that was left.
@pytest.mark.parametrize("seed", [0, 1, *wide(532)])
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


# 6: a home's only copy is gone for good. 33, 310, 333: what is staged is held for a minute.
# 125: who came back to a queue was sent steps with a gap.
@pytest.mark.parametrize("seed", [*range(7), *wide(33, 125, 310, 333)])
def test_where_no_disk_is_hurt_each_item_comes_out_once(seed):
    report = unplanted(seed, KEEPING)
    assert report.ending is Ending.SETTLED, report.sentence


def test_a_life_over_etcd_ends_well():
    report = lived(0, kinds_of("queue"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence


class DrainedLife(StepLife):
    """Nodes are drained by turns, each for three seconds."""

    def populate(self, world):
        super().populate(world)
        nodes, end = self._scenario.nodes, self._scenario.faults_end
        for turn, at in enumerate(range(DRAINED_FOR, end, DRAINED_FOR)):
            node, over = nodes[turn % len(nodes)], min(at + DRAINED_FOR, end)
            for number, (when, undo) in enumerate(((at, False), (over, True))):
                ask = OperationId(node, DRAINS + 2 * turn + number)
                world.at(Instant(when), self._drain, world, ask, undo)

    def _drain(self, world, ask, undo):
        if world.slots[ask.client].node is not None:
            world.request(ask.client, ask, Drain(undo))


# 20: a node that was to stay after all was named again for what it kept, and then heard that it may
# erase it. 28: who fetched an item asked a node that had handed it over, and it had failed.
@pytest.mark.parametrize("seed", [20, 28])
def test_nothing_fails_or_is_lost_where_nodes_are_drained_by_turns(seed):
    calm = drawn("queue", seed, ())
    calm = replace(calm, nodes=tuple([NodeId(f"n{at}") for at in range(1, 5)]))
    report = live(calm, DrainedLife)
    assert report.ending is Ending.SETTLED, report.sentence


# --- planted --------------------------------------------------------------------------------------


def who_leads_next_does_not_know_what_is_open(patch):
    patch.setattr(Transactions, "restore", lambda *_: None)


def what_is_given_up_may_be_decided_later(patch):
    patch.setattr(Producers, "close", lambda *_: None)


def what_is_staged_is_dropped_when_its_hold_is_over(patch):
    drop = StagedBatches.drop

    def drops(self, wall):
        for name in drop(self, wall):
            self.give_up(name)
        return []

    patch.setattr(StagedBatches, "drop", drops)


def what_is_promised_ends_by_itself(patch):
    def ends(self, operation, _):
        self._tell(operation, calls.Settled(0))

    patch.setattr(Transacting, "promise", ends)


def a_lease_that_is_over_counts(patch):
    patch.setattr(Transacting, "_lost", lambda *_: "")


def what_was_asked_in_vain_is_not_given_up(patch):
    def asks_once(home, commit, wait):
        try:
            committed = yield from home.ask_about(commit, wait.left)
        except (Full, OutcomeUnknown) as error:
            raise Full("nothing of it happened") from error
        return committed.left

    patch.setattr(step_parts, "_decided", asks_once)


def a_home_that_moved_is_not_sought(patch):
    patch.setattr(StagedBatches, "has", lambda *_: True)


class AloneLife(StepLife):
    """Each queue has one copy."""

    def users(self, stage, *, keeps):
        users = super().users(stage, keeps=keeps)
        users.alone = True
        return users


def restarted(seed):
    """Homes move while steps are open: messages are late, and one node after the other restarts."""
    scenario = drawn("queue", seed, ())
    nodes, end = scenario.nodes[1:], scenario.faults_end
    down, up = seconds(2), milliseconds(1500)
    faults = [Delay(Instant(seconds(4)), end, seconds(2))]
    for at in range(seconds(5), end, (whole := len(nodes) * (down + up))):
        if at + whole < end:
            faults.append(RollingRestart(Instant(at), Instant(at + whole), nodes, down, up))
    return live(replace(scenario, faults=tuple(faults)), AloneLife)


PLANTS = {
    who_leads_next_does_not_know_what_is_open: (58, KEEPING),
    what_is_given_up_may_be_decided_later: (13, KEEPING),
    what_is_staged_is_dropped_when_its_hold_is_over: (2, KEEPING),
    what_is_promised_ends_by_itself: (0, KEEPING),
    a_lease_that_is_over_counts: (17, KEEPING),
    what_was_asked_in_vain_is_not_given_up: (58, KEEPING),
}
"""With the life that finds each: its seed, and its kinds of faults."""
SAID = "is lost", "is doubled", "in one target of its step", "did not happen"


@pytest.mark.parametrize("plant", PLANTS)
def test_it_is_found(plant, monkeypatch):
    seed, kinds = PLANTS[plant]
    monkeypatch.setattr(Leader, "check", lambda _: None)  # by who put and got, not from inside
    plant(monkeypatch)
    sentence = lived(seed, kinds).sentence
    assert any(one in sentence for one in SAID), sentence
    monkeypatch.undo()
    assert unplanted(seed, kinds).ending is Ending.SETTLED


@pytest.mark.parametrize("seed", [24, *wide(28)])
def test_lives_in_which_homes_move_find_that_they_are_not_sought(seed, monkeypatch):
    """Two of the first fifteen that have four nodes or more."""
    monkeypatch.setattr(Leader, "check", lambda _: None)
    a_home_that_moved_is_not_sought(monkeypatch)
    assert "x0 is not deleted" in restarted(seed).sentence
    monkeypatch.undo()
    assert restarted(seed).ending is Ending.SETTLED
