"""A full store refuses what has no room, keeps the rest, and can always shrink."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from damaged import damaged_in

from snowmelt.core.errors import DiskFull, StoreError
from snowmelt.core.record import Erase, Missing, Record, Write
from snowmelt.store import Store

SIZE_MAX = 1 << 20
LARGE = b"x" * 100_000
"""Too large for the log: the engine gets it at once."""


def fill(store: Store) -> int:
    """Writes payloads until one is refused; how many there are."""
    for at in range(10_000):
        (answer,) = store.commit([[Write(b"~%05d" % at, b"x" * 50_000)]])
        if answer is not None:
            assert isinstance(answer, DiskFull)
            assert "size_max" in str(answer) or "no room" in str(answer)
            return at
    raise AssertionError("it never filled")


def test_a_full_store_refuses_payloads_but_lets_state_and_erasing_through(tmp_path: Path) -> None:
    with Store.open(tmp_path, size_max=SIZE_MAX, flush=False) as store:
        count = fill(store)
        assert 15 <= count <= 21
        answers = store.commit(
            [
                [Write(b"~small", b"x"), Write(b"~big", b"x" * 90_000)],
                [Write(b"given away", b"9")],
                [Erase(b"~00000", b"~00004"), Write(b"given away", b"10")],
            ]
        )
        assert isinstance(answers[0], DiskFull)
        assert answers[1:] == [None, None]
        assert store.load([b"~small", b"~big", b"~00003"]) == (
            Missing(b"~small"),
            Missing(b"~big"),
            Missing(b"~00003"),
        )
        assert store.commit([[Write(b"~again", b"x" * 90_000)]]) == [None]
        assert store.statistics().refused == 2


def test_a_store_full_of_state_can_still_be_emptied(tmp_path: Path) -> None:
    with Store.open(tmp_path, size_max=SIZE_MAX, flush=False) as store:
        at = 0
        while store.commit([[Write(b"%06d" % at, b"x" * 100_000)]]) == [None]:
            at += 1
        for _ in range(20):
            assert store.commit([[Erase(b"000000", b"000003")]]) == [None]
        assert store.commit([[Erase(b"", b"\xff")]]) == [None]
        assert store.scan(b"", b"\xff", 1) == []


def test_room_is_used_again_for_ever(tmp_path: Path) -> None:
    with Store.open(tmp_path, size_max=SIZE_MAX, flush=False) as store:
        for at in range(1000):
            answers = store.commit(
                [[Write(b"~%06d" % at, b"x" * 40_000)], [Erase(b"~", b"~%06d" % max(0, at - 10))]]
            )
            assert answers == [None, None]
    assert (tmp_path / "records").stat().st_size < 3 * SIZE_MAX


class Failing:
    """An engine whose transactions fail the way asked for."""

    def __init__(self, env: lmdb.Environment, error: lmdb.Error, times: int) -> None:
        self._env = env
        self._error = error
        self._times = times

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False) -> object:
        if write and self._times:
            self._times -= 1
            raise self._error
        return self._env.begin(write=write)


def test_when_the_engine_finds_no_room_each_group_is_tried_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        env = store._env
        store._env = Failing(env, lmdb.MapFullError("commit"), times=2)  # type: ignore[assignment]
        answers = store.commit([[Write(b"a", LARGE)], [Write(b"b", LARGE)], []])
        store._env = env
        assert isinstance(answers[0], DiskFull)
        assert answers[1:] == [None, None]


def test_a_failed_flush_is_never_tried_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        env = store._env
        store._env = Failing(env, lmdb.CorruptedError("commit"), times=1)  # type: ignore[assignment]
        (answer,) = store.commit([[Write(b"a", LARGE)]])
        assert isinstance(answer, StoreError)
        assert "failed" in str(answer)
        with pytest.raises(StoreError, match="open the store anew"):
            store.commit([[Write(b"b", b"")]])
        with pytest.raises(StoreError, match="open the store anew"):
            store.load([b"b"])
        store._env = env
    with Store.open(tmp_path) as store:
        assert store.load([b"a"]) == (Missing(b"a"),)


class Row(Failing):
    """An engine whose transactions end one after another as the row says; None: well."""

    def __init__(self, env: lmdb.Environment, *row: lmdb.Error | None) -> None:
        super().__init__(env, lmdb.Error("unused"), 0)
        self._row = list(row)

    def begin(self, *, write: bool = False) -> object:
        error = self._row.pop(0) if write else None
        if error is not None:
            raise error
        return self._env.begin(write=write)


def test_of_groups_tried_alone_each_is_answered_by_what_became_of_it(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        env = store._env
        full, failed = lmdb.MapFullError("commit"), lmdb.CorruptedError("commit")
        store._env = Row(env, full, None, full, failed)  # type: ignore[assignment]
        answers = store.commit([[Write(b"%d" % one, LARGE)] for one in range(4)])
        store._env = env
    assert [type(answer) for answer in answers] == [type(None), DiskFull, StoreError, StoreError]
    with Store.open(tmp_path) as store:
        found = [type(one) for one in store.load([b"0", b"1", b"2", b"3"])]
        assert found == [Record, Missing, Missing, Missing]


class Rootless(Failing):
    """An engine whose commits are made, and then say that there was no room for their root."""

    @contextlib.contextmanager
    def begin(self, *, write: bool = False) -> Iterator[object]:
        with self._env.begin(write=write) as transaction:
            yield transaction
        if write:
            raise self._error


def test_no_room_for_the_root_leaves_the_fate_unknown(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        env = store._env
        store._env = Rootless(env, lmdb.DiskError("no room"), 1)  # type: ignore[assignment]
        (answer,) = store.commit([[Write(b"a", LARGE)]])
        store._env = env
        assert isinstance(answer, StoreError)  # not `DiskFull`: it is there
        with pytest.raises(StoreError, match="open the store anew"):
            store.load([b"a"])
    with Store.open(tmp_path) as store:
        assert store.load([b"a"]) == (Record(b"a", LARGE),)


LIMITED = """
import json, resource, sys
from pathlib import Path
from snowmelt.core.record import Erase, Write
from snowmelt.store import Store

with Store.open(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
    kept = 0
    while (answer := store.commit([[Write(b"~%05d" % kept, b"x" * 30_000)]])[0]) is None:
        kept += 1
    mixed = store.commit([[Write(b"~more", b"x" * 30_000)], [Erase(b"~", b"~00010")]])
    store.commit([[Write(b"n", b"1")]])
    again = store.commit([[Write(b"~again", b"x" * 30_000)]])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    after = store.commit([[Write(b"~%05d" % kept, b"x" * 300_000)]])
    print(json.dumps([kept, *[type(a).__name__ for a in (answer, *mixed, *again, *after)]]))
"""


SCATTERED = """
import json, resource, sys
from pathlib import Path
from snowmelt.core.record import Erase, Write
from snowmelt.store import Store

def key(number):
    return b"~%05d" % number

with Store.open(Path(sys.argv[1])) as store:
    for at in range(200):
        store.commit([[Write(key(at), b"x" * 60_000)]])
    for at in range(0, 200, 2):
        store.commit([[Erase(key(at), key(at + 1))]])
    size = max(one.stat().st_size for one in Path(sys.argv[1]).iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    large = b"x" * int(sys.argv[2])
    answers = [store.commit([[Write(key(1000 + at), large)]])[0] for at in range(4)]
    answers += store.commit([[Write(b"n", b"1")]])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    answers += store.commit([[Write(key(2000), large)]])
    print(json.dumps([type(one).__name__ for one in answers]))
"""


@pytest.mark.parametrize("size", [900_000, 1_500_000])
def test_a_large_value_is_refused_where_the_disk_is_full_and_free_pages_lie_scattered(
    tmp_path: Path, size: int
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", SCATTERED, tmp_path, str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.stderr == ""
    *large, small, after = json.loads(child.stdout)
    assert "DiskFull" in large
    assert set(large) <= {"NoneType", "DiskFull"}
    assert (small, after) == ("NoneType", "NoneType")
    with Store.open(tmp_path) as store:
        assert damaged_in(store) == ()


EXACT = """
import json, resource, sys
from pathlib import Path
from snowmelt.core.record import Erase, Write
from snowmelt.store import Store

with Store.open(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
    kept = 0
    for size in (100_000, 8_000, 4_000):
        while store.commit([[Write(b"~%05d" % kept, b"x" * size)]]) == [None]:
            kept += 1
    state = store.commit([[Write(b"n%d" % at, b"x" * 100) for at in range(50)]])
    freed = store.commit([[Erase(b"~", b"~00010"), Write(b"n", b"1")]])
    print(json.dumps([type(one).__name__ for one in state + freed]))
"""


def test_a_disk_that_payloads_filled_to_the_last_page_takes_small_state(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", EXACT, tmp_path], capture_output=True, text=True, check=False
    )
    assert child.stderr == ""
    assert json.loads(child.stdout) == ["NoneType", "NoneType"]
    with Store.open(tmp_path) as store:
        assert damaged_in(store) == ()


def test_a_disk_that_fills_refuses_and_recovers(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=False
    )
    assert child.stderr == ""
    kept, *answers = json.loads(child.stdout)
    assert kept > 50
    assert answers == ["DiskFull", "DiskFull", "NoneType", "NoneType", "NoneType"]
    with Store.open(tmp_path) as store:
        assert damaged_in(store) == ()
        assert len(store.scan(b"~", b"~\xff", 10_000)) == kept - 10 + 2
