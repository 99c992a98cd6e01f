"""What a store keeps, refuses and says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from damaged import damaged_in

from snowmelt.core.errors import (
    BadOption,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreVersion,
)
from snowmelt.core.record import Damaged, Erase, Missing, Record, Write, erase
from snowmelt.store import Store
from snowmelt.store.seal import seal
from snowmelt.store.stamp import READABLE, VERSION, Stamp, encode, read_stamp, write_stamp


def test_records_are_there_after_closing_and_opening_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a" / "b") as store:
        assert store.commit([(Write(b"k", b"v"), Write(b"~bulk", b"b")), (Write(b"l", b""),)]) == [
            None,
            None,
        ]
    with Store.open(tmp_path / "a" / "b") as store:
        assert store.load([b"l", b"~bulk", b"nothing", b""]) == (
            Record(b"l", b""),
            Record(b"~bulk", b"b"),
            Missing(b"nothing"),
            Missing(b""),
        )
        assert store.recover().records == (Record(b"k", b"v"), Record(b"l", b""))


def test_recovering_skips_bulk_and_keeps_order_on_both_sides_of_it(tmp_path: Path) -> None:
    keys = [b"\x00", b"a", b"~", b"~a", b"~\xff", b"\x7f", b"\xff\xff"]
    with Store.open(tmp_path) as store:
        store.commit([[Write(key, key)] for key in reversed(keys)])
        assert [record.key for record in store.recover().records] == [
            b"\x00",
            b"a",
            b"\x7f",
            b"\xff\xff",
        ]


def test_erasing_takes_a_half_open_range(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"%02d" % at, b"v") for at in range(20)]])
        store.commit([[Erase(b"05", b"10"), erase(b"15"), Erase(b"19", b"18")]])
        left = [int(found.key) for found in store.scan(b"", b"\xff", limit=100)]
        assert left == [at for at in range(20) if at not in {5, 6, 7, 8, 9, 15}]
        store.commit([[Erase(b"", b"\xff")]])
        assert store.scan(b"", b"\xff", limit=100) == []


def test_changes_of_a_group_are_made_in_their_order(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"k", b"1"), erase(b"k"), Write(b"k", b"2")], [Write(b"k", b"3")]])
        assert store.load([b"k"]) == (Record(b"k", b"3"),)


@pytest.mark.parametrize("sizes", [(4077, 0), (5000, 1), (20_000, 9_000, 30), (9_000, 9_000)])
def test_a_large_value_may_be_written_over_in_the_same_commit(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"k", b"x" * size)] for size in sizes])
    with Store.open(tmp_path) as store:  # audited
        assert store.load([b"k"]) == (Record(b"k", b"x" * sizes[-1]),)


def test_pages_that_a_value_kept_too_many_of_are_no_damage(tmp_path: Path) -> None:
    """Folders of earlier versions have such values, three of them here."""
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"other", b"o" * 10_000)]])
        with store._env.begin(write=True) as transaction:
            for key, size in ((b"a", 30_000), (b"b", 5_000), (b"c", 9_000)):
                transaction.put(key, b"x" * size)
                transaction.put(key, seal(store._identity, key, b"v"))
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"a", b"new"), erase(b"b")]])
        assert store.load([b"c"]) == (Record(b"c", b"v"),)
        assert damaged_in(store) == ()
    with Store.open(tmp_path) as store:
        store.commit([[erase(b"c")]])
    Store.open(tmp_path).close()


def test_scanning_stops_at_its_limit(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"%d" % at, b"") for at in range(9)]])
        assert [found.key for found in store.scan(b"2", b"8", limit=3)] == [b"2", b"3", b"4"]
        assert store.scan(b"2", b"8", limit=0) == []


def test_scanning_stops_with_the_record_that_reaches_its_bytes(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"%d" % at, b"1234") for at in range(9)]])
        for bytes_max, count in ((0, 1), (4, 1), (5, 2), (8, 2), (1000, 6)):
            assert len(store.scan(b"2", b"8", bytes_max=bytes_max)) == count
        assert store.scan(b"8", b"2", bytes_max=100) == []


def test_a_commit_of_nothing_costs_no_flush(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert store.commit([]) == []
        assert store.commit([(), ()]) == [None, None]
        assert store.statistics().flushes == 0


def test_many_groups_share_one_flush(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"%d" % at, b"12345")] for at in range(50)])
        seen = store.statistics()
    assert (seen.flushes, seen.groups, seen.refused) == (1, 50, 0)
    assert seen.bytes_used > 50 * 7


@pytest.mark.parametrize(
    "change",
    [
        Write(b"", b"v"),
        Write(b"k" * 401, b"v"),
        Erase(b"k" * 402, b"z"),
        Erase(b"k", b"z" * 402),
    ],
)
def test_a_key_no_store_can_hold_is_the_callers_fault(
    tmp_path: Path, change: Write | Erase
) -> None:
    with Store.open(tmp_path) as store:
        with pytest.raises(BadOption, match="length"):
            store.commit([[Write(b"good", b"v")], [change]])
        assert store.load([b"good"]) == (Missing(b"good"),)


def test_the_longest_key_is_kept_found_and_erased(tmp_path: Path) -> None:
    key = b"\xff" * 400
    with Store.open(tmp_path) as store:
        store.commit([[Write(key, b"v" * 5_000_000)]])
        assert store.load([key]) == (Record(key, b"v" * 5_000_000),)
        store.commit([[erase(key)]])
        assert store.load([key]) == (Missing(key),)


def test_a_folder_has_one_owner_and_the_second_learns_who(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        with pytest.raises(StoreBusy, match=f"{tmp_path} is held by process {os.getpid()}"):
            Store.open(tmp_path)
        program = (
            "import sys, pathlib; from snowmelt.store import Store; "
            "Store.open(pathlib.Path(sys.argv[1]))"
        )
        other = subprocess.run(
            [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False
        )
        assert "StoreBusy" in other.stderr
    Store.open(tmp_path).close()


def test_a_closed_store_refuses_work_and_closes_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.close()
    store.close()
    for work in (
        store.recover,
        lambda: store.scan(b"", b"~~"),
        lambda: store.load([b"k"]),
        lambda: store.commit([[Write(b"k", b"v")]]),
    ):
        with pytest.raises(StoreError, match="closed"):
            work()


@pytest.mark.parametrize("version", [0, VERSION + 1, 999_999_999])
def test_another_version_is_refused_with_what_to_do(tmp_path: Path, version: int) -> None:
    Store.open(tmp_path).close()
    before = (tmp_path / "records").read_bytes()
    write_stamp(tmp_path, Stamp(version, b"12345678"))
    with pytest.raises(StoreVersion, match=rf"version {version}; this program reads 1, 2\. Run"):
        Store.open(tmp_path)
    assert (tmp_path / "records").read_bytes() == before


def test_this_version_reads_itself() -> None:
    assert VERSION in READABLE


def test_a_damaged_stamp_is_refused_at_every_bit(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    whole = (tmp_path / "stamp").read_bytes()
    for bit in range(len(whole) * 8):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        (tmp_path / "stamp").write_bytes(broken)
        with pytest.raises(StoreDamaged, match="stamp"):
            read_stamp(tmp_path)
    for length in range(len(whole)):
        (tmp_path / "stamp").write_bytes(whole[:length])
        with pytest.raises(StoreDamaged, match="stamp"):
            read_stamp(tmp_path)


def test_records_of_another_node_are_damaged_records(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Store.open(tmp_path / name) as store:
            store.commit([[Write(b"k", b"of " + name.encode()), Write(b"~i", b"x")]])
    shutil.copy(tmp_path / "a" / "records", tmp_path / "b" / "records")
    with Store.open(tmp_path / "b") as store:
        assert store.recover().damaged == (b"k",)
        assert store.load([b"k", b"~i"]) == (Damaged(b"k"), Damaged(b"~i"))
        assert store.scan(b"~", b"~\xff", bytes_max=100) == [Damaged(b"~i")]
        assert damaged_in(store) == (b"k", b"~i")
        assert store.statistics().damaged_found == 6


def test_records_gone_under_their_stamp_are_not_made_anew(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / "records").unlink()
    with pytest.raises(StoreDamaged, match="is gone"):
        Store.open(tmp_path)


def test_records_without_their_stamp_are_not_taken_over(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"k", b"v")]])
    (tmp_path / "stamp").unlink()
    with pytest.raises(StoreDamaged, match="stamp is gone"):
        Store.open(tmp_path)


def test_making_a_store_survives_a_crash_at_each_step(tmp_path: Path) -> None:
    (tmp_path / "records.new").write_bytes(b"half")
    (tmp_path / "stamp.new").write_bytes(b"half")
    Store.open(tmp_path).close()
    (tmp_path / "stamp").unlink()  # as if the crash came before the stamp
    with Store.open(tmp_path) as store:
        assert store.commit([[Write(b"k", b"v")]]) == [None]


def test_a_stale_table_of_readers_is_thrown_away(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / "records-lock").write_bytes(os.urandom(8192))
    Store.open(tmp_path).close()


def test_a_path_that_can_not_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="file"):
        Store.open(tmp_path / "file")
    with pytest.raises(StoreError, match="file/below"):
        Store.open(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(StoreError, match=f"{locked}.*Permission"):
        Store.open(locked)


def test_size_max_has_a_lowest_value(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="size_max"):
        Store.open(tmp_path, size_max=5)


def test_a_store_without_flushes_keeps_records_over_closing(tmp_path: Path) -> None:
    with Store.open(tmp_path, flush=False) as store:
        store.commit([[Write(b"k", b"v")]])
        assert store.statistics().flushes == 0
    with Store.open(tmp_path) as store:
        assert store.load([b"k"]) == (Record(b"k", b"v"),)


def test_the_stamp_can_be_read_by_eye() -> None:
    assert encode(Stamp(2, b"store-01")).startswith(b"snowmelt store 2\nidentity 73746f72")
