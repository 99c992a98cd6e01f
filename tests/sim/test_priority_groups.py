"""Lives in which groups read priority queues, as Spark does: `sim/families/priority_readers.py`."""

import pytest

from snowmelt.client.connection.steps import Steps
from snowmelt.client.priority.group_steps import Good, PriorityGroupSteps
from snowmelt.client.queue.group_steps import Mark, survey
from snowmelt.sim.families import family, priority_readers
from snowmelt.sim.families.priority_readers import Reader
from snowmelt.sim.faults import KINDS
from snowmelt.sim.life import Ending, Report, live
from snowmelt.sim.scenario import drawn

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
