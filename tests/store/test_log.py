"""The commit log: torn at every byte, harmed at every bit, carried to the engine at any time."""

import contextlib
import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lmdb
import pytest
from damaged import damaged_in

from snowmelt.core.errors import DiskFull, StoreDamaged, StoreError
from snowmelt.core.record import Change, Erase, Missing, Record, Write, erase
from snowmelt.store import Store, room
from snowmelt.store import log as log_module
from snowmelt.store import room as room_module
from snowmelt.store.changes import PAGE, Group
from snowmelt.store.log import LOG_NAME, WriteAheadLog, make_log
from snowmelt.store.stamp import Stamp, read_stamp, write_stamp

IDENTITY = b"store-01"
GENERATION = 7
SHORT = 1 << 17
LARGE = b"x" * 100_000


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "LOG_BYTES", SHORT)


def opened(folder: Path) -> WriteAheadLog:
    return WriteAheadLog(folder, IDENTITY, flush=False)


def replayed(folder: Path, generation: int = GENERATION) -> list[Change]:
    log = opened(folder)
    try:
        return list(log.replayed(generation))
    finally:
        log.close()


def written(folder: Path, *commits: Sequence[Change], generation: int = GENERATION) -> bytes:
    """The file of a log after these commits."""
    log = opened(folder)
    log.begin(generation)
    for changes in commits:
        assert log.append([changes])
    log.close()
    return (folder / LOG_NAME).read_bytes()


def commits(count: int, rng: random.Random) -> list[list[Change]]:
    """Small ones, and one of several pages in three."""
    return [
        [Write(b"%d" % at, rng.randbytes(9_000 if at % 3 == 1 else 40)), erase(b"gone %d" % at)]
        for at in range(count)
    ]


def test_a_write_that_was_cut_off_anywhere_leaves_what_was_before_it(tmp_path: Path) -> None:
    make_log(tmp_path)
    file = tmp_path / LOG_NAME
    first: list[Change] = [Write(b"a", b"1"), Erase(b"b", b"c")]
    last: list[Change] = [Write(b"d", b"2" * 100)]
    before = written(tmp_path, first)
    begin = 2 * PAGE
    after = written(tmp_path, first, last)
    whole = 0
    for end in range(begin, begin + 2 * PAGE + 1, 7):
        file.write_bytes(after[:end] + before[end:])
        found = replayed(tmp_path)
        assert found in (first, first + last)
        whole += found != first
    assert whole  # as soon as one copy is there
    file.write_bytes(after)
    assert replayed(tmp_path) == first + last


@pytest.mark.parametrize("seed", range(3))
def test_sectors_that_came_in_any_order_leave_all_commits_but_the_last(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    make_log(tmp_path)
    written(tmp_path, *commits(9, rng), generation=GENERATION - 1)  # what lies under it
    several = commits(5, rng)
    before = written(tmp_path, *several[:4])
    after = written(tmp_path, *several)
    safe = [change for changes in several[:4] for change in changes]
    for _ in range(100):
        torn = bytearray(before)
        for at in range(0, len(torn), 512):
            if rng.random() < 0.7:
                torn[at : at + 512] = after[at : at + 512]
        (tmp_path / LOG_NAME).write_bytes(torn)
        found = replayed(tmp_path)
        assert found[: len(safe)] == safe
        assert found[len(safe) :] in ([], several[4])


def test_no_bit_that_flips_takes_a_commit(tmp_path: Path) -> None:
    make_log(tmp_path)
    several: list[list[Change]] = [[Write(b"a", b"1"), Erase(b"b", b"c")], [Write(b"d", b"")]]
    whole = written(tmp_path, *several)
    sound = [change for changes in several for change in changes]
    written_to = [at for at in range(len(whole)) if any(whole[at // 64 * 64 :][:64])]
    for at in written_to:
        harmed = bytearray(whole)
        harmed[at] ^= 1 << at % 8
        (tmp_path / LOG_NAME).write_bytes(harmed)
        assert replayed(tmp_path) == sound


def test_of_a_record_any_page_may_be_lost(tmp_path: Path) -> None:
    make_log(tmp_path)
    several = commits(3, random.Random(1))
    whole = written(tmp_path, *several)
    for page in range(0, len(whole), PAGE):
        harmed = bytearray(whole)
        harmed[page : page + PAGE] = random.Random(page).randbytes(PAGE)
        (tmp_path / LOG_NAME).write_bytes(harmed)
        assert replayed(tmp_path) == [change for changes in several for change in changes]


def test_a_lost_record_before_a_sound_one_is_told(tmp_path: Path) -> None:
    make_log(tmp_path)
    harmed = bytearray(written(tmp_path, *commits(3, random.Random(2))))
    for copy in (0, PAGE):
        harmed[copy + 30] ^= 1
    (tmp_path / LOG_NAME).write_bytes(harmed)
    with pytest.raises(StoreDamaged, match="at byte 0 is lost, and later ones are there"):
        replayed(tmp_path)


def test_records_of_an_earlier_generation_count_for_nothing(tmp_path: Path) -> None:
    make_log(tmp_path)
    written(tmp_path, *commits(5, random.Random(3)))
    assert replayed(tmp_path, GENERATION + 1) == []
    later = [[Write(b"now", b"")]]
    written(tmp_path, *later, generation=GENERATION + 1)
    assert replayed(tmp_path, GENERATION + 1) == later[0]


def test_a_log_that_is_ahead_of_the_engine_is_told(tmp_path: Path) -> None:
    make_log(tmp_path)
    written(tmp_path, *commits(5, random.Random(3)))
    with pytest.raises(StoreDamaged, match=r"from commit 7 of the records, and they end with 6"):
        replayed(tmp_path, GENERATION - 1)


def test_another_stores_log_is_not_this_ones(tmp_path: Path) -> None:
    make_log(tmp_path)
    written(tmp_path, *commits(2, random.Random(4)))
    log = WriteAheadLog(tmp_path, b"store-02", flush=False)
    assert list(log.replayed(GENERATION)) == []
    log.close()


@pytest.mark.parametrize("length", [0, SHORT - 1, SHORT + 1])
def test_a_log_of_another_length_is_damaged(tmp_path: Path, length: int) -> None:
    Store.open(tmp_path).close()
    os.truncate(tmp_path / LOG_NAME, length)
    with pytest.raises(StoreDamaged, match=f"it has {length} bytes"):
        Store.open(tmp_path)


def test_a_log_that_is_gone_is_missed(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / LOG_NAME).unlink()
    with pytest.raises(StoreDamaged, match="it is gone"):
        Store.open(tmp_path)


# --- in the store ---------------------------------------------------------------------------------


def killed(folder: Path, at: Path) -> Path:
    """A copy of a store's files as the death of its process would leave them now."""
    return Path(shutil.copytree(folder, at))


def content(folder: Path) -> list[tuple[bytes, bytes]]:
    with Store.open(folder, flush=False) as store:
        assert damaged_in(store) == ()
        found = store.scan(b"", b"\xff" * 401)
    return [(record.key, record.value) for record in found if isinstance(record, Record)]


def test_a_commit_that_is_small_waits_for_the_disk_once_and_is_seen(tmp_path: Path) -> None:
    with Store.open(tmp_path / "n1") as store:
        before = (tmp_path / "n1" / "records").read_bytes()
        store.commit([[Write(b"a", b"1"), Write(b"b", b"2")], [erase(b"a")]])
        assert store.load([b"a", b"b"]) == (Missing(b"a"), Record(b"b", b"2"))
        seen = store.statistics()
        assert (seen.commits, seen.flushes, seen.carries) == (1, 1, 0)
        assert (tmp_path / "n1" / "records").read_bytes()[: len(before)] == before
        assert content(killed(tmp_path / "n1", tmp_path / "n2")) == [(b"b", b"2")]


def test_a_large_commit_takes_along_what_was_before_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "n1") as store:
        store.commit([[Write(b"a", b"1"), Write(b"b", b"2"), Write(b"c", b"3")]])
        store.commit([[Write(b"a", LARGE), erase(b"b")]])
        assert store.statistics().carries == 1
        assert store.load([b"a", b"b"]) == (Record(b"a", LARGE), Missing(b"b"))
        store.commit([[Write(b"c", b"4")]])
        assert content(killed(tmp_path / "n1", tmp_path / "n2")) == [(b"a", LARGE), (b"c", b"4")]


def test_who_reads_between_a_commit_of_the_engine_and_the_end_of_the_table_sees_the_commit(
    tmp_path: Path,
) -> None:
    seen = []

    class Read(Hooked):
        @contextlib.contextmanager
        def begin(self, *, write: bool = False) -> Iterator[object]:
            with self._env.begin(write=write) as transaction:
                yield transaction
            if write:
                seen.append(store.load([b"a", b"b"]))

    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1"), Write(b"b", b"2")]])
        env = store._env
        store._env = Read(env, lambda: None)  # type: ignore[assignment]
        store.commit([[Write(b"a", LARGE), erase(b"b")]])
        store._env = env
    assert seen == [(Record(b"a", LARGE), Missing(b"b"))]


def test_no_more_changes_wait_for_the_engine_than_it_makes_in_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_PROMISES_MAX", 10)
    with Store.open(tmp_path) as store:
        store.commit([[erase(b"%d" % at) for at in range(10)]])
        assert store.statistics().carries == 0
        store.commit([[Write(b"one more", b"")]])
        assert store.statistics().carries == 1
    assert content(tmp_path) == [(b"one more", b"")]


def test_closing_leaves_an_empty_log(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1")]])
    (tmp_path / LOG_NAME).write_bytes(bytes(SHORT))
    assert content(tmp_path) == [(b"a", b"1")]


def test_erasing_what_is_not_there_is_carried_too(tmp_path: Path) -> None:
    with Store.open(tmp_path / "n1") as store:
        generations = set()
        for round_ in range(3):
            for at in range(SHORT // PAGE):
                assert store.commit([[Erase(b"a%d" % at, b"b")]]) == [None]
            generations.add(store._log.generation)
            copy = killed(tmp_path / "n1", tmp_path / f"copy {round_}")
            assert content(copy) == []
        assert len(generations) == 3
        store.commit([[Write(b"a1", b"")]])
    assert content(tmp_path / "n1") == [(b"a1", b"")]


class Hooked:
    """An engine that calls something before each commit and each flush, or fails there."""

    def __init__(self, env: lmdb.Environment, before: Callable[[], None]) -> None:
        self._env = env
        self._before = before

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False) -> object:
        if write:
            self._before()
        return self._env.begin(write=write)

    def sync(self, _: bool) -> None:
        self._before()


def test_a_crash_round_a_carry_loses_nothing_and_makes_nothing_twice(tmp_path: Path) -> None:
    """The files as they are before it, with its pages but not its root, and after it."""
    model: dict[bytes, bytes] = {}
    copies: list[tuple[Path, list[tuple[bytes, bytes]]]] = []

    def take() -> None:
        copy = killed(tmp_path / "n1", tmp_path / f"copy {len(copies)}")
        copies.append((copy, sorted(model.items())))

    with Store.open(tmp_path / "n1") as store:
        env = store._env
        store._env = Hooked(env, take)  # type: ignore[assignment]
        for at in range(60):
            key, gone = b"%02d" % at, b"%02d" % (at - 3)
            store.commit([[Write(key, b"v"), Write(b"last", b"%d" % at), erase(gone)]])
            model |= {key: b"v", b"last": b"%d" % at}
            model.pop(gone, None)
            if at % 20 == 10:
                take()
                store._carried(())  # which takes another copy before
                take()
                take()
                before, pages = copies[-3][0] / "records", copies[-1][0] / "records"
                with pages.open("r+b") as file:
                    file.write(before.read_bytes()[: 2 * PAGE])
        store._env = env
    assert len(copies) > 3 * 4
    for copy, expected in [*copies, (tmp_path / "n1", sorted(model.items()))]:
        assert content(copy) == expected


class Disk:
    """A log whose writes end as the row says: None well, else the error, after it was written."""

    def __init__(self, log: WriteAheadLog, *row: int | None) -> None:
        self._log = log
        self._row = iter(row)

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def append(self, groups: Sequence[Group]) -> bool:
        made = self._log.append(groups)
        code = next(self._row, None)
        if code is not None:
            raise OSError(code, os.strerror(code))
        return made


def test_a_log_whose_flush_failed_is_never_written_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1")]])
        store._log = Disk(store._log, errno.EIO)  # type: ignore[assignment]
        (answer,) = store.commit([[Write(b"b", b"2")]])
        assert isinstance(answer, StoreError)
        assert not isinstance(answer, DiskFull)
        for work in (lambda: store.commit([[Write(b"c", b"3")]]), lambda: store.load([b"a"])):
            with pytest.raises(StoreError, match="open the store anew"):
                work()
    assert content(tmp_path) in ([(b"a", b"1")], [(b"a", b"1"), (b"b", b"2")])


@pytest.mark.parametrize("value", [b"2", LARGE])
def test_a_commit_that_is_interrupted_is_the_last_and_made_whole_or_not(
    tmp_path: Path, value: bytes
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1")]])
        store._table.make = interrupted  # type: ignore[assignment]
        store._table.clear = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            store.commit([[Write(b"b", value), erase(b"a")]])
        with pytest.raises(StoreError, match="was interrupted; open the store anew"):
            store.commit([[Write(b"c", b"3")]])
    assert content(tmp_path) == [(b"b", value)]


def test_a_disk_that_fails_at_opening_is_told(tmp_path: Path) -> None:
    def failed() -> None:
        raise lmdb.DiskError("input/output error")

    with Store.open(tmp_path) as store:
        env = store._env
        store._env = Hooked(env, failed)  # type: ignore[assignment]
        with pytest.raises(StoreError, match=r"failed .*input/output error.*open the store anew"):
            store._replay()
        store._env = env


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_log_without_room_gives_its_work_to_the_engine(tmp_path: Path, code: int) -> None:
    with Store.open(tmp_path / "n1") as store:
        store.commit([[Write(b"a", b"1")]])
        store._log = Disk(store._log, code)  # type: ignore[assignment]
        assert store.commit([[Write(b"b", b"2")]]) == [None]
        assert store.statistics().carries == 2
        assert store.commit([[Write(b"c", b"3")]]) == [None]
        assert store.statistics().carries == 2
        found = content(killed(tmp_path / "n1", tmp_path / "n2"))
    assert found == content(tmp_path / "n1") == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


def test_a_log_with_room_for_a_part_only_gives_its_work_to_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a file with holes, brought back from a copy, on a disk that is full."""
    room = [PAGE, 0]
    pwrite = os.pwrite

    def full(handle: int, data: bytes, place: int) -> int:
        left = room.pop(0)
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(handle, data[:left], place)

    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1")]])
        with monkeypatch.context() as disk:
            disk.setattr(os, "pwrite", full)
            assert store.commit([[Write(b"b", b"2")]]) == [None]
        assert (store.statistics().carries, room) == (2, [])
        assert store.commit([[Write(b"c", b"3")]]) == [None]
    assert content(tmp_path) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


def test_where_neither_log_nor_engine_has_room_the_fate_is_unknown(tmp_path: Path) -> None:
    def full() -> None:
        raise lmdb.MapFullError("commit")

    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1")]])
        env = store._env
        store._env = Hooked(env, full)  # type: ignore[assignment]
        store._log = Disk(store._log, errno.ENOSPC)  # type: ignore[assignment]
        (answer,) = store.commit([[Write(b"b", b"2")]])
        store._env = env
        assert isinstance(answer, StoreError)
        assert not isinstance(answer, DiskFull)  # it may be found in the log
    assert content(tmp_path)[0] == (b"a", b"1")


def test_a_carry_without_room_refuses_what_comes_and_keeps_what_was_safe(tmp_path: Path) -> None:
    def full() -> None:
        raise lmdb.MapFullError("commit")

    with Store.open(tmp_path) as store:
        env = store._env
        store._env = Hooked(env, full)  # type: ignore[assignment]
        made = 0
        while (answer := store.commit([[Write(b"%03d" % made, b"v")]])[0]) is None:
            made += 1
        assert isinstance(answer, DiskFull)
        assert made == SHORT // (2 * PAGE)
        assert len(store.scan(b"", b"\xff")) == made
        store._env = env
        assert store.commit([[Write(b"more", b"v")]]) == [None]
    assert len(content(tmp_path)) == made + 1


def test_what_is_promised_is_counted_once_it_matters(tmp_path: Path) -> None:
    """One small record, written over and over, takes no more room than one."""
    with Store.open(tmp_path, size_max=1 << 20, flush=False) as store:
        for at in range(300):
            assert store.commit([[Write(b"~k", b"%05d" % at * 10_000)]]) == [None]
        assert store.load([b"~k"]) == (Record(b"~k", b"00299" * 10_000),)


def test_a_folder_of_version_1_is_opened_and_gets_a_log(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"1")]])
    stamp = read_stamp(tmp_path)
    assert stamp is not None
    for left_by_a_crash in (False, True):
        if not left_by_a_crash:
            (tmp_path / LOG_NAME).unlink()
        write_stamp(tmp_path, Stamp(1, stamp.identity))
        assert content(tmp_path) == [(b"a", b"1")]
        assert read_stamp(tmp_path) == stamp
        assert (tmp_path / LOG_NAME).stat().st_size == SHORT


@pytest.mark.parametrize("gone", [("stamp",), ("stamp", "records")])
def test_records_that_only_the_log_has_are_not_begun_anew_over(
    tmp_path: Path, gone: Sequence[str]
) -> None:
    with Store.open(tmp_path / "n1") as store:
        store.commit([[Write(b"a", b"1")]])
        copy = killed(tmp_path / "n1", tmp_path / "n2")
    for name in gone:
        (copy / name).unlink()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="its stamp is gone"):
            Store.open(copy)
    for name in gone:
        shutil.copy(tmp_path / "n1" / name, copy)
    assert content(copy) == [(b"a", b"1")]


def test_an_older_stamp_beside_a_log_that_was_written_to_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "n1") as store:
        store.commit([[Write(b"a", b"1")]])
        copy = killed(tmp_path / "n1", tmp_path / "n2")
    stamp = read_stamp(copy)
    assert stamp is not None
    write_stamp(copy, Stamp(1, stamp.identity))
    with pytest.raises(StoreDamaged, match="its stamp is an older one"):
        Store.open(copy)
    write_stamp(copy, stamp)
    assert content(copy) == [(b"a", b"1")]


def test_a_deep_tree_gets_scattered_changes_on_the_room_that_was_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each comes to a leaf and a branch that no other comes to, and splits the leaf."""
    monkeypatch.setattr(log_module, "LOG_BYTES", 1 << 20)
    monkeypatch.setattr(room_module, "_STRIDE_MAX", 0)
    filler = b"k" * 392
    with Store.open(tmp_path, flush=False) as store:
        for first in range(0, 16_000, 400):
            keys = [b"%08d" % at + filler for at in range(first, first + 400)]
            store.commit([[Write(key, b"v" * 100) for key in keys]])
        carries = store.statistics().carries
        for at in range(0, 16_000, 54 * 50):
            keys = [b"%08d" % near + filler[:-1] + b"z" for near in range(at, at + 54 * 50, 54)]
            assert store.commit([[Write(key, b"w" * 590) for key in keys]]) == [None]
        assert store.statistics().carries == carries
        room = (tmp_path / "records").stat().st_size
        assert store._carried(())
        info = store._env.info()
        assert (info["last_pgno"] + 1) * PAGE <= room


def test_a_log_that_finds_no_room_leaves_none_of_it_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        make_log(tmp_path)
    assert list(tmp_path.iterdir()) == []
