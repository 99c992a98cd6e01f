"""LMDB as this store uses it: how its file is made, opened and closed.

LMDB never overwrites a page that the last commit can see and has no log to replay: a crash at any
moment leaves the last commit whole, and what is on the disk is what was acknowledged. Why it was
chosen before others, and what they lost when bits of their files were flipped, is in
`docs/explanation/store.md`. The engine is named by its major version, so that neither an
environment variable nor a newer package makes files of another format.
"""

from pathlib import Path
from typing import Final

import lmdb

from snowmelt.core.errors import StoreDamaged, StoreError
from snowmelt.core.record import Change, Erase, Write
from snowmelt.store.audit import audit
from snowmelt.store.folder import INSTEAD, OWNER_NAME, flush_folder
from snowmelt.store.log import LOG_NAME, is_written, make_log
from snowmelt.store.room import reserve
from snowmelt.store.seal import seal
from snowmelt.store.stamp import STAMP_NAME, VERSION, Stamp, new_stamp, read_stamp, write_stamp
from snowmelt.store.table import Transaction

DATA_NAME: Final = "records"
_SMALLEST: Final = 1 << 20
_LARGE: Final = 1_024
"""Values above this may lie on pages of their own: the engine keeps two records on a page at least,
and its pages have 4,096 bytes or more."""
FILES: Final = frozenset(
    name + end
    for name in (DATA_NAME, LOG_NAME, STAMP_NAME, OWNER_NAME)
    for end in ("", ".new", "-lock", ".new-lock")
)
"""What a store's folder may hold; there is no more in it."""


def open_engine(folder: Path, size_max: int, *, flush: bool) -> tuple[lmdb.Environment, Stamp]:
    """Opens the records of a folder that is owned, after an audit; makes them where none are."""
    file = folder / DATA_NAME
    stamp = read_stamp(folder)
    if stamp is None and not file.exists():
        _make_file(file)
    elif not file.exists():
        raise StoreDamaged(f"{folder} is stamped as a store, but {file} is gone: {INSTEAD}")
    remove(fresh_name(file))  # a copy that a crash left unfinished
    audit(file)
    env = open_file(file, size_max + 2 * reserve(size_max), flush=flush)
    try:
        return env, _stamped(folder, env, stamp)
    except BaseException:
        env.close()
        raise


def make_change(
    transaction: Transaction, identity: bytes, change: Change, large: set[bytes]
) -> None:
    """Makes one change; `large` are the keys that got a large value in this transaction.

    Written over at once by a smaller value, the pages of a large one would stay with it, and
    whoever audits the file would miss them; so it is erased first.
    """
    if type(change) is Write:
        key = change.key
        if key in large:
            transaction.delete(key)
        if len(change.value) > _LARGE:
            large.add(key)
        transaction.put(key, seal(identity, key, change.value))
    else:
        assert type(change) is Erase
        cursor = transaction.cursor()
        there = cursor.set_range(change.start) if change.start else cursor.first()
        while there and cursor.key() < change.stop:
            there = cursor.delete() and bool(cursor.key())


def _make_file(file: Path) -> None:
    """Makes the file under another name first, so that under its own it is whole."""
    fresh = fresh_name(file)
    make_empty(fresh)
    _readers_of(fresh).unlink(missing_ok=True)
    fresh.replace(file)
    flush_folder(file.parent)


def make_empty(fresh: Path) -> None:
    """Makes an empty file of records, in the place of any other."""
    fresh.unlink(missing_ok=True)
    env = open_file(fresh, _SMALLEST, flush=True)
    with env.begin(write=True) as transaction:  # two commits fill both roots, see `audit.py`
        transaction.put(b"made", b"")
    with env.begin(write=True) as transaction:
        transaction.delete(b"made")
    env.close()


def _stamped(folder: Path, env: lmdb.Environment, stamp: Stamp | None) -> Stamp:
    """Stamps a store that is being made or upgraded, perhaps again after a crash on the way here.

    The log is there before the stamp that tells of one. From then on it is missed when it is gone;
    and one that was written to had that stamp.
    """
    if stamp is not None and stamp.version == VERSION:
        return stamp
    if is_written(folder) or (stamp is None and env.stat()["entries"]):
        lost = "gone" if stamp is None else "an older one"
        raise StoreDamaged(
            f"{folder} holds records, but its stamp is {lost}, so they can't be told from others; "
            f"bring back the stamp; else {INSTEAD}"
        )
    stamp = Stamp(VERSION, stamp.identity) if stamp is not None else new_stamp()
    make_log(folder)
    write_stamp(folder, stamp)
    return stamp


def open_file(file: Path, map_size: int, *, flush: bool) -> lmdb.Environment:
    # The table of readers matters only while it is mapped. The folder is ours alone, so what is
    # there is left from a process that died; the engine would trust the locks in it, and hang.
    _readers_of(file).unlink(missing_ok=True)
    try:
        return lmdb.open(
            str(file),
            map_size=map_size,
            subdir=False,
            sync=flush,
            metasync=flush,
            mode=0o600,
            lib_version=0,
        )
    except lmdb.Error as error:
        raise StoreError(f"the engine can't open {file}: {error}") from error


def fresh_name(file: Path) -> Path:
    """The name under which a file is made that takes this one's place."""
    return file.with_suffix(".new")


def remove(file: Path) -> None:
    """Removes a file of records, if it is there, and its table of readers."""
    file.unlink(missing_ok=True)
    _readers_of(file).unlink(missing_ok=True)


def _readers_of(file: Path) -> Path:
    return file.with_name(file.name + "-lock")
