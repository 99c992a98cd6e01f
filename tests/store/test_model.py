"""A dict is a store: whatever groups come, however it ends and is opened again, both hold the same.

The log is short, so that the engine gets what it holds at any time; what was erased is given back
a few records at a time, whenever it is asked for.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from damaged import damaged_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snowmelt.core.record import BULK, Change, Erase, Missing, Record, Write, scanned
from snowmelt.store import Store, shrinking
from snowmelt.store import log as log_module

KEYS = st.one_of(
    st.binary(min_size=1, max_size=3),
    st.binary(max_size=2).map(lambda tail: BULK + tail),
    st.binary(min_size=400, max_size=400),
)
VALUES = st.one_of(st.binary(max_size=20), st.integers(0, 20_000).map(lambda size: b"x" * size))
CHANGES = st.one_of(st.builds(Write, KEYS, VALUES), st.builds(Erase, KEYS, KEYS))
STEPS = st.sampled_from(["close", "die", "shrink", "shrink", "shrink"])
GROUPS = st.lists(st.lists(CHANGES, max_size=5), max_size=5)


@pytest.fixture(autouse=True)
def _short_log() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "LOG_BYTES", 1 << 16)
        for name, value in (("SPARE_MIN", 0), ("LOOK_SECONDS", 0.0), ("_SHARE", 1)):
            patch.setattr(shrinking, name, value)
        patch.setattr(shrinking, "_SLICE_BYTES", 10_000)
        yield


def change(model: dict[bytes, bytes], step: Change) -> None:
    match step:
        case Write(key, value):
            model[key] = value
        case Erase(start, stop):
            for key in [key for key in model if start <= key < stop]:
                del model[key]


def compare(store: Store, model: dict[bytes, bytes]) -> None:
    records = [Record(key, model[key]) for key in sorted(model)]
    assert store.scan(b"", b"\xff" * 401, limit=10_000) == records
    assert store.recover().records == tuple(r for r in records if not r.key.startswith(BULK))
    assert damaged_in(store) == ()
    for key in [*model, b"never written"]:
        (found,) = store.load([key])
        assert found == (Record(key, model[key]) if key in model else Missing(key))


def left_by_its_death(folder: Path) -> Path:
    """What is in the folder of a store whose process dies now."""
    copy = folder.with_name(folder.name + "+")
    shutil.copytree(folder, copy)
    return copy


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(GROUPS, GROUPS, STEPS), max_size=16))
def test_a_store_does_as_a_dict_does(steps: list[list[list[Change]] | str]) -> None:
    model: dict[bytes, bytes] = {}
    with TemporaryDirectory() as base:
        folder = Path(base) / "n"
        store = Store.open(folder, flush=False)
        for groups in steps:
            if groups == "shrink":
                assert store.shrink() is not None
                compare(store, model)
                continue
            if isinstance(groups, str):
                folder = left_by_its_death(folder) if groups == "die" else folder
                store.close()
                store = Store.open(folder, flush=False)
                compare(store, model)
                continue
            assert store.commit(groups) == [None] * len(groups)
            for group in groups:
                for step in group:
                    change(model, step)
            compare(store, model)
        store.close()


@settings(max_examples=40, deadline=None)
@given(GROUPS, KEYS, KEYS, st.integers(0, 9), st.integers(0, 40_000))
def test_scanning_is_slicing(
    groups: list[list[Change]], start: bytes, stop: bytes, limit: int, bytes_max: int
) -> None:
    model: dict[bytes, bytes] = {}
    with TemporaryDirectory() as folder, Store.open(Path(folder), flush=False) as store:
        for group in groups:
            store.commit([group])  # some of it is in the engine by then, and some over it
            for step in group:
                change(model, step)
        expected = [Record(key, model[key]) for key in sorted(model) if start <= key < stop]
        assert store.scan(start, stop, limit) == expected[:limit]
        assert store.scan(start, stop, bytes_max=bytes_max) == list(scanned(expected, bytes_max))
