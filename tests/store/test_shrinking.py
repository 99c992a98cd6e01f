"""What was erased is given back to the disk; whatever fails or dies meanwhile, nothing is lost."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import lmdb
import pytest
from damaged import damaged_in

from snowmelt.core.errors import DiskFull
from snowmelt.core.record import Erase, Record, Write
from snowmelt.store import Completion, GroupCommit, Store, shrinking
from snowmelt.store.log import LOG_BYTES, WriteAheadLog
from snowmelt.store.shrinking import RecordsCopy

BODY = b"x" * 40_000
LIVE = [Record(b"%03d" % one, b"v" * one) for one in range(0, 300, 7)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SPARE_MIN", 1 << 20), ("LOOK_SECONDS", 0.0), ("_SHARE", 1)):
        monkeypatch.setattr(shrinking, name, value)
    monkeypatch.setattr(shrinking, "_SLICE_BYTES", 1_000)
    monkeypatch.setattr(shrinking, "_CUT_BYTES", 1 << 20)


def in_and_out(store: Store, bodies: int = 100) -> None:
    """Small records that stay, and large ones that come and go."""
    assert store.commit([[Write(one.key, one.value) for one in LIVE]]) == [None]
    for at in range(bodies):
        assert store.commit([[Write(b"~%05d" % at, BODY)]]) == [None]
    assert store.commit([[Erase(b"~", b"~~")]]) == [None]


def shrunk(store: Store) -> int:
    """Gives back all there is to give back; in how many turns."""
    turns = 0
    while store.shrink() is not None:
        turns += 1
        assert turns < 1_000
    return turns


def holds(folder: Path) -> list[Record]:
    """What is found there by the next who opens it."""
    with Store.open(folder, flush=False) as store:
        assert damaged_in(store) == ()
        found = store.scan(b"", b"\xff", 10_000)
    return [one for one in found if isinstance(one, Record)]


@pytest.mark.parametrize("flush", [True, False])
def test_the_file_gets_short_and_holds_what_it_held(tmp_path: Path, flush: bool) -> None:
    with Store.open(tmp_path, flush=flush) as store:
        in_and_out(store)
        assert (tmp_path / "records").stat().st_size > 4_000_000
        assert shrunk(store) > 10  # in slices
        assert (tmp_path / "records").stat().st_size < 1 << 20
        assert store.scan(b"", b"\xff", 10_000) == LIVE
        store.commit([[Write(b"after", b"1")]])
        store.commit([[Write(b"~after", BODY * 3)]])
    assert holds(tmp_path) == [*LIVE, Record(b"after", b"1"), Record(b"~after", BODY * 3)]
    assert not (tmp_path / "records.new").exists()


def test_a_file_that_is_used_is_left_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path, flush=False) as store:
        for at in range(100):
            store.commit([[Write(b"~%05d" % at, BODY)]])
        store.commit([[Erase(b"~", b"~00040")]])
        before = (tmp_path / "records").stat().st_ino
        for _ in range(20):
            store.shrink()
        assert (tmp_path / "records").stat().st_ino == before


def test_what_is_changed_meanwhile_is_changed_in_the_copy(tmp_path: Path) -> None:
    rng = random.Random(7)
    model = {one.key: one.value for one in LIVE}
    with Store.open(tmp_path, flush=False) as store:
        in_and_out(store)
        for at in range(400):
            key = b"%03d" % rng.randrange(300)
            if rng.random() < 0.5:
                size = rng.choice((3, 3_000, 100_000))  # to the log, and to the engine at once
                assert store.commit([[Write(key, b"%d" % at * size)]]) == [None]
                model[key] = b"%d" % at * size
            else:
                stop = key + b"\0" if rng.random() < 0.7 else b"%03d" % min(999, int(key) + 20)
                assert store.commit([[Erase(key, stop)]]) == [None]
                model = {one: value for one, value in model.items() if not key <= one < stop}
            store.shrink()
            found = [Record(key, model[key])] if key in model else []
            assert store.scan(key, key + b"\0") == found
        assert store.scan(b"", b"\xff", 10_000) == [Record(k, model[k]) for k in sorted(model)]
    assert holds(tmp_path) == [Record(key, model[key]) for key in sorted(model)]


def test_whenever_it_dies_the_next_finds_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the folder is taken at each step that changes it, as a kill would leave it."""
    folder, left = tmp_path / "n1", list[Path]()

    def dies(after: Callable[..., object]) -> Callable[..., object]:
        def instead(*given: object, **named: object) -> object:
            left.append(shutil.copytree(folder, tmp_path / f"left{len(left)}"))
            result = after(*given, **named)
            left.append(shutil.copytree(folder, tmp_path / f"left{len(left)}"))
            return result

        return instead

    def erase_in_pieces(log: WriteAheadLog) -> None:
        for start in range(0, LOG_BYTES, LOG_BYTES // 4):
            os.pwrite(log._handle, bytes(LOG_BYTES // 4), start)
            left.append(shutil.copytree(folder, tmp_path / f"left{len(left)}"))

    with Store.open(folder, flush=False) as store:
        in_and_out(store)
        store.commit([[Write(b"in the log", b"1")]])
        for name in ("take", "flush", "place"):
            monkeypatch.setattr(RecordsCopy, name, dies(getattr(RecordsCopy, name)))
        monkeypatch.setattr(WriteAheadLog, "erase", dies(erase_in_pieces))
        monkeypatch.setattr(Path, "replace", dies(Path.replace))
        assert shrunk(store) > 10
        monkeypatch.undo()
    assert len(left) > 25
    for one in left:
        assert holds(one) == [*LIVE, Record(b"in the log", b"1")]
        assert not (one / "records.new").exists()


def test_a_copy_that_fails_is_given_up_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise lmdb.DiskError("no room for two")

    for name in ("take", "make", "flush"):
        with Store.open(tmp_path / name, flush=False) as store:
            in_and_out(store)
            for _ in range(4):
                store.shrink()
            assert store._shrinking.copy is not None
            with monkeypatch.context() as patch:
                patch.setattr(RecordsCopy, name, fails)
                for _ in range(200):
                    store.shrink()
                    store.commit([[Write(b"~meanwhile", b"x" * 100_000)]])
            assert store._shrinking.copy is None
            assert not (tmp_path / name / "records.new").exists()
            assert store.scan(b"", b"~", 10_000) == LIVE
            assert (tmp_path / name / "records").stat().st_size > 4_000_000


def test_a_disk_that_is_full_at_the_end_ends_the_copy_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: WriteAheadLog) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(WriteAheadLog, "erase", full)
    with Store.open(tmp_path, flush=False) as store:
        in_and_out(store)
        for _ in range(30):
            store.shrink()
        assert store._shrinking.copy is None
        assert store.commit([[Write(b"after", b"1")]]) == [None]
    assert holds(tmp_path) == [*LIVE, Record(b"after", b"1")]


def test_one_that_is_only_begun_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(file: Path, *_: object, **__: object) -> None:
        file.write_bytes(b"half")
        raise lmdb.DiskError("no room for two")

    with Store.open(tmp_path, flush=False) as store:
        in_and_out(store)
        monkeypatch.setattr(shrinking, "open_file", fails)
        for _ in range(5):
            store.shrink()
        assert not (tmp_path / "records.new").exists()


def test_a_copy_that_is_never_whole_is_given_up(tmp_path: Path) -> None:
    with Store.open(tmp_path, flush=False) as store:
        in_and_out(store)
        for at in range(1_000):  # there is always more ahead than was copied
            store.commit([[Write(b"~%09d" % (9 * at + one), BODY) for one in range(9)]])
            store.commit([[Erase(b"~", b"~%09d" % (9 * at))]])
            store.shrink()
            if store._shrinking.copy is None and at > 10:
                break
        assert at < 900
        assert store.scan(b"", b"~", 10_000) == LIVE


def test_who_finds_no_room_gets_that_of_the_copy(tmp_path: Path) -> None:
    with Store.open(tmp_path, flush=False, size_max=8 << 20) as store:
        in_and_out(store)
        for _ in range(4):
            store.shrink()
        assert store._shrinking.copy is not None
        (answer,) = store.commit([[Write(b"~large", b"x" * (9 << 20))]])
        assert isinstance(answer, DiskFull)
        assert store._shrinking.copy is None
        assert not (tmp_path / "records.new").exists()


def test_no_copy_is_begun_where_the_disk_has_no_room_for_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    with Store.open(tmp_path, flush=False) as store:
        in_and_out(store)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
        for _ in range(10):
            store.shrink()
        assert store._shrinking.copy is None


def test_the_thread_that_commits_does_it_by_itself_when_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "LOOK_SECONDS", 0.05)
    done = Event()

    def completed(completions: list[Completion]) -> None:
        assert [one.failure for one in completions] == [None] * len(completions)
        if completions[-1].ticket == 101:
            done.set()

    with Store.open(tmp_path, flush=False) as store:
        commit = GroupCommit(store, completed)
        for at in range(100):
            commit.submit(at, [Write(b"~%05d" % at, BODY)])
        commit.submit(101, [Erase(b"~", b"~~")])
        assert done.wait(30)
        end = time.monotonic() + 30
        while (tmp_path / "records").stat().st_size > 1 << 20 and time.monotonic() < end:
            time.sleep(0.01)
        assert (tmp_path / "records").stat().st_size < 1 << 20
        assert commit.close(10)


WRITER = """
import sys, threading
from pathlib import Path
from snowmelt.core.record import Erase, Write
from snowmelt.store import GroupCommit, Store, shrinking

shrinking.SPARE_MIN, shrinking.LOOK_SECONDS, shrinking._SHARE = 1 << 18, 0.001, 2
shrinking._SLICE_BYTES = 20_000
window = threading.Semaphore(8)

def completed(completions):
    sys.stdout.write("".join(f"{c.ticket}\\n" for c in completions))
    sys.stdout.flush()
    window.release(len(completions))

store = Store.open(Path(sys.argv[1]))
commit = GroupCommit(store, completed)
ticket = int(sys.argv[2])
while True:
    window.acquire()
    changes = [Write(b"a/%09d" % ticket, b"%d" % ticket * 300)]
    changes += [Write(b"~b/%09d" % ticket, b"%d" % ticket * 9_000)]
    if ticket % 40 == 0:
        changes += [Erase(b"~b/", b"~b/%09d" % ticket), Erase(b"a/", b"a/%09d" % (ticket - 100))]
    commit.submit(ticket, changes)
    ticket += 1
"""


def test_killed_at_any_moment_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    first, rng, files = 1, random.Random(3), set[int]()
    for kills in range(60):  # ten, or until it has shrunk
        if kills >= 10 and len(files) > 1:
            break
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path, str(first)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _ in range(rng.randrange(20, 400)):
                child.stdout.readline()
            time.sleep(rng.random() / 50)
            child.send_signal(signal.SIGKILL)
            said = [line for line in child.stdout.read().split("\n")[:-1] if line]
        files.add((tmp_path / "records").stat().st_ino)
        with Store.open(tmp_path) as store:
            assert damaged_in(store) == ()
            small = store.scan(b"a/", b"a0", 1_000_000)
            bulk = store.scan(b"~b/", b"~b0", 1_000_000)
        numbers = [int(record.key[2:]) for record in small]
        last = numbers[-1]
        assert last >= (int(said[-1]) if said else 1)
        swept = last // 40 * 40
        assert numbers == list(range(max(1, swept - 100), last + 1))
        assert [int(record.key[3:]) for record in bulk] == list(range(max(1, swept), last + 1))
        for record in (*small, *bulk):
            assert isinstance(record, Record)
            of = int(record.key.rpartition(b"/")[2])
            assert record.value == b"%d" % of * (300 if record.key[:1] == b"a" else 9_000)
        first = last + 1
    assert len(files) > 1, "it did not shrink meanwhile"


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_old_file_is_unmapped_when_it_has_been_cut_off_and_not_before(tmp_path: Path) -> None:
    """To unmap ten gigabytes takes a quarter of a second, in which nobody may write."""

    def mapped() -> bool:
        return "records (deleted)" in Path("/proc/self/maps").read_text()

    with Store.open(tmp_path, flush=False) as store:
        in_and_out(store)
        while not mapped():
            assert store.shrink() is not None, "it was unmapped in the turn of the writer"
        assert shrunk(store) > 1
        assert not mapped()
    assert holds(tmp_path) == LIVE
