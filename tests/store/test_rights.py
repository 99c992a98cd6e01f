"""Whose a store's folder and files are: their owner's, and nobody else's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from snowmelt.core.record import Write
from snowmelt.store import Store
from snowmelt.store.folder import others_may_look


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777


def used(folder: Path) -> None:
    with Store.open(folder) as store:
        store.commit([[Write(b"a", b"1")]])
        names = ("log", "owner", "records", "records-lock", "stamp")
        assert [rights(folder / name) for name in names] == 5 * [0o600]


def test_a_folder_and_its_files_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    used(tmp_path / "nodes" / "n1")
    assert rights(tmp_path / "nodes" / "n1") == 0o700
    assert rights(tmp_path / "nodes") == 0o755  # what is above it may be others' way elsewhere


def test_a_store_that_others_could_read_is_tightened(tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    used(folder)
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    used(folder)
    assert rights(folder) == 0o700


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir(0o755)
    (folder / "notes").write_text("mine")
    used(folder)
    assert rights(folder) == 0o755
    assert rights(folder / "notes") == 0o644
    assert others_may_look(folder)
