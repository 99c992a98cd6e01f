"""Lives in which `put_many` is several calls, with faults in between (`fifo_pouring.py`)."""

from types import TracebackType

import pytest

from snowmelt.client.connection.steps import ProgressNote
from snowmelt.client.fifo import steps
from snowmelt_world.families import family
from snowmelt_world.families.fifo_pouring import Pourer
from snowmelt_world.faults import KINDS
from snowmelt_world.judge.values import Put
from snowmelt_world.life import Ending, Report, live
from snowmelt_world.scenario import drawn


def lived(seed: int) -> Report:
    return live(drawn("queue", seed, KINDS), family("queue"))


class Sure(ProgressNote):
    """Says nothing of the call that is under way."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.asked = False
        super().__exit__(kind, error, traceback)


@pytest.mark.parametrize("seed", [4, 12, 42])
def test_what_is_told_of_a_put_of_several_calls_is_where_nodes_said(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves: list[str] = []
    half = Pourer._half

    def noting(pourer: Pourer, batches: list[Put], error: BaseException) -> list[Put]:
        left = half(pourer, batches, error)
        halves.extend(getattr(error, "__notes__", ()))
        return left

    monkeypatch.setattr(Pourer, "_half", noting)
    report = lived(seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")
    assert halves


def test_the_world_finds_a_note_that_is_too_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ProgressNote", Sure)
    assert lived(4).ending is Ending.INVARIANT_BROKEN
