"""Lives in which groups read priority queues, as Spark does: `sim/families/priority_readers.py`."""

from random import Random

import pytest

from snowmelt.client.connection.steps import Steps
from snowmelt.client.priority.group_steps import Good, PriorityGroupSteps
from snowmelt.client.priority.staging import Told
from snowmelt.client.queue.group_steps import Mark, survey
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.anchor import EPOCH_BITS
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.families import family, priority_readers
from snowmelt.sim.families.fifo_actors import Stage
from snowmelt.sim.families.priority import PriorityLife
from snowmelt.sim.families.priority_groups import Keeper, Over
from snowmelt.sim.families.priority_readers import Reader
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.faults import KINDS
from snowmelt.sim.judge.copies import Excuses
from snowmelt.sim.judge.urgency import Got
from snowmelt.sim.judge.values import Place
from snowmelt.sim.life import Ending, Report, live
from snowmelt.sim.scenario import drawn
from snowmelt.sim.world import World

SEEDS = (54, 74, 174)


def lived(seed: int) -> Report:
    return live(drawn("priority", seed, KINDS), family("priority"))


class Hasty(PriorityGroupSteps):
    """Gives notes of which nobody has kept anything."""

    def _vet(self, timeout: float) -> Steps[Good]:
        located = yield from survey(self._notes, 0, 1_000, timeout)
        notes = yield from self._read(located, "notes", timeout)
        return Good(len(notes), max([span.stop for span in located.spans], default=0))


class Forgetful(PriorityGroupSteps):
    """Passes batches whose items nobody acknowledged."""

    def _pass(self, done: Mark, timeout: float) -> Steps[None]:
        del done, timeout
        yield from ()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_group_was_given_is_its_own_and_the_same_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    reads = Reader._compare

    def counting(reader: Reader, part: object, *more: object) -> None:
        told.append(reader.name)
        reads(reader, part, *more)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Reader, "_compare", counting)
    report = lived(seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")
    assert len(told) >= 5


@pytest.mark.parametrize(
    ("spoiled", "seed", "what"),
    [(Hasty, 34, "not held any more"), (Forgetful, 174, "is not empty yet")],
)
def test_the_world_finds_a_group_that_gives_or_passes_wrongly(
    spoiled: type[PriorityGroupSteps], seed: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority_readers, "PriorityGroupSteps", spoiled)
    report = lived(seed)
    assert report.ending is not Ending.SETTLED
    assert what in report.sentence


@pytest.mark.parametrize(("set_back", "times"), [(2, 1), (8, 0)])
def test_who_may_have_been_told_in_vain_that_a_kept_lease_ended_says_so_once_more(
    set_back: int, times: int
) -> None:
    world, excuses = World(1), Excuses([NodeId("n1")])
    ledger = Ledger(QueueSettings(queue="q1", priorities=1, replicas=1), excuses, 1)
    life = PriorityLife(drawn("priority", 1, ()), Random(1))
    stage = Stage(world, [NodeId("n1")], duplicates=False)
    keeper = Keeper(stage, "h1", Random(1), ledger, life._load)
    excuses.viewed(Instant(0), NodeId("n1"), 1, (NodeId("n1"),))
    said = []

    def done() -> Steps[Told]:
        said.append("done")
        yield from ()
        return Told((), ())

    when = Instant(1), Instant(2), Instant(0), Instant(0)
    got = Got("h1", 1, *when, order=1, asked=1, places=(Place(0, 1 << EPOCH_BITS),))
    keeper._ended = (Over(got, done, Instant(4), Instant(5)),)
    excuses.renumbered(Instant(9), Instant(set_back), NodeId("n1"))
    for _ in range(2):
        assert list(keeper._says_again()) == []
    assert len(said) == times
