"""What a Python of Spark's has loaded is set aside, and what comes after is still looked at."""

import gc
import sys
import weakref
from collections.abc import Iterator
from types import ModuleType

import pytest

from snowmelt.spark import settling as own
from snowmelt.spark.settling import settling


class Ring:
    """Garbage that only a look through all there is finds."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(own, "_loaded", 0)
    monkeypatch.setenv("SPARK_BUFFER_SIZE", "65536")
    yield
    gc.unfreeze()


def test_what_was_loaded_is_set_aside_and_what_comes_after_is_looked_at() -> None:
    early = weakref.ref(ring := Ring())
    del ring
    with settling():
        pass
    assert early() is None, "what was garbage did not stay"
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < 1000
    late = weakref.ref(ring := Ring())
    del ring
    gc.collect()
    assert late() is None


def test_a_persons_own_program_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_BUFFER_SIZE")
    with settling():
        pass
    assert gc.get_freeze_count() == 0


def test_it_is_done_again_only_when_something_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    with settling():
        pass
    kept = [Ring() for _ in range(2000)]
    with settling():
        pass
    assert len(gc.get_objects()) > len(kept), "nothing was loaded, so it was left as it was"
    with settling():
        monkeypatch.setitem(sys.modules, "loaded_by_a_task", ModuleType("loaded_by_a_task"))
    assert len(gc.get_objects()) < 1000
