"""Whose a folder is; and how a cluster is founded, in a folder or in etcd.

| a folder has | it is |
|---|---|
| who started on it, or decides there | a node's; and of one cluster, once it was in a view of it |
| how often it was opened | of embedded queues |
| neither | nobody's yet |

Each kind is refused as the other: what is in queues of the one is not seen by the other. So is
either with queues on the overlay, which earlier versions had.
"""

from collections.abc import Callable
from pathlib import Path
from secrets import randbits
from typing import Final

import msgspec

from snowmelt.core.errors import (
    BadOption,
    StateError,
    StoreBusy,
    StoreDamaged,
    StoreVersion,
    Unavailable,
    in_short,
)
from snowmelt.core.names import NodeId
from snowmelt.core.record import Damaged, Missing, Record, Write, decoded
from snowmelt.protocols.etcd import (
    Answer,
    EtcdFailed,
    Read,
    Request,
    Transact,
    Transacted,
    Unchanged,
)
from snowmelt.protocols.host import own_start, shared_key, shared_range
from snowmelt.protocols.membership.disk import KEYS, StoredMembership, Unreadable, kept
from snowmelt.protocols.membership.founding import in_etcd, on_disk
from snowmelt.protocols.membership.records import BATONS, CLUSTER, HOMES_END, LEDGER, Founded
from snowmelt.protocols.membership.view import identity_of
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection
from snowmelt.store import Store
from snowmelt.store.stamp import STAMP_NAME, read_stamp

MEMBERSHIP: Final = b"membership/"
OVERLAY: Final = b"priority/"
OVERLAY_QUEUES: Final = b"s/", b"t/"
"""Under which keys the settings of each queue stood, twice; its name is their first field."""
OPENINGS: Final = b"embedded/openings"
QUEUES_MAX: Final = 1 << 20
NOBODYS: Final = StoredMembership(None, None, None)


def check_embedded(folder: Path, store: Store) -> None:
    """Raises when the folder is a node's, or has queues on the overlay."""
    found = _kept(folder, store)
    if found.id:
        raise _is_no_embedded(folder, f"this one is of node {found.id}{_of_cluster(found)}")
    check_form(folder, store)


def check_nobody_within(folder: Path) -> None:
    """Raises when a new folder of embedded queues would lie round nodes' folders."""
    if not folder.is_dir() or read_stamp(folder) is not None:
        return
    for one in sorted(folder.glob(f"*/{STAMP_NAME}")):
        try:
            found = looked_at(one.parent)
        except BadOption:  # embedded queues, which are nobody's
            continue
        except StoreBusy:
            raise _is_no_embedded(folder, f"in it a program has {one.parent} open") from None
        if found.id:
            raise _is_no_embedded(folder, f"in it is node {found.id}{_of_cluster(found)}")


def check_nobodys(folder: Path) -> None:
    """Raises when folders of nodes are to be made within one that is a store itself."""
    found = looked_at(folder)
    if found.id:
        whose = f"this one is of node {found.id}{_of_cluster(found)}"
        instead = f"start that: snowmelt node --data {folder}"
        raise BadOption("--data", str(folder), f"a folder for nodes' folders; {whose}: {instead}")


def _is_no_embedded(folder: Path, whose: str) -> BadOption:
    instead = "start that (snowmelt node --data …) and connect to its address, with --url"
    return BadOption("folder", str(folder), f"a folder of embedded queues; {whose}: {instead}")


def check_node(folder: Path, store: Store) -> StoredMembership:
    """What the folder says of its node; raises for embedded queues, and those on the overlay."""
    if any(not isinstance(one, Missing) for one in store.load([OPENINGS])):
        whose = "this one has embedded queues"
        instead = "open it with snowmelt.open, or --data of put and get, and give the node another"
        raise BadOption("--data", str(folder), f"a node's folder; {whose}: {instead}")
    check_form(folder, store)
    return _kept(folder, store)


def check_form(folder: Path, store: Store) -> None:
    """Raises when there are queues on the overlay here: nobody would see what is in them."""
    rows = (
        row
        for key in OVERLAY_QUEUES
        for row in store.scan(*shared_range(OVERLAY, key, key + b"\xff"), limit=QUEUES_MAX)
    )
    old = {msgspec.msgpack.decode(row.value)[0] for row in rows if isinstance(row, Record)}
    if old:
        raise StoreVersion(
            f"{folder} has queues on the overlay, which this version of snowmelt does not have: "
            f"{in_short(sorted(old))}; take out what is in them with the version that made them, "
            "and begin on a new folder (and, where etcd decides, under a new prefix)"
        )


def looked_at(folder: Path) -> StoredMembership:
    """What a stopped node's folder says of it; nothing where there is none."""
    if not folder.is_dir() or read_stamp(folder) is None:
        return NOBODYS
    with Store.open(folder) as store:
        return check_node(folder, store)


def check_new(folder: Path) -> None:
    """Raises when the folder holds what is no store's."""
    if folder.is_file() or (
        folder.is_dir() and any(folder.iterdir()) and read_stamp(folder) is None
    ):
        raise BadOption("--data", str(folder), "a new folder; this one holds something else")


def found_on_disk(folder: Path, node: NodeId) -> str:
    """Founds a cluster in a folder on which there is nothing yet; returns its identity."""
    check_new(folder)
    with Store.open(folder) as store:
        known = check_node(folder, store)
        if known.id:
            whose = f"{folder} is of node {known.id}{_of_cluster(known)}; nothing was founded"
            raise StateError(f"{whose}. Start it: snowmelt node --data {folder}")
        cluster = _drawn()
        changes = [one for one in on_disk(cluster, node) if isinstance(one, Write)]
        (error,) = store.commit(
            [[Write(shared_key(MEMBERSHIP, one.key), one.value) for one in changes]]
        )
    if error is not None:
        raise error
    return identity_of(cluster)


def found_in_etcd(
    place: EtcdPlace, name: str, carry: Callable[[Request], Answer] | None = None
) -> str:
    """Founds a cluster under a prefix under which there is nothing yet; returns its identity."""
    line = EtcdConnection(place)
    try:
        return _found_in_etcd(place, name, carry or line.carry)
    finally:
        line.close()


def _found_in_etcd(place: EtcdPlace, name: str, carry: Callable[[Request], Answer]) -> str:
    rest = Read(BATONS, HOMES_END, rows_max=1)  # and of homes, which stand between them
    cluster = _drawn()
    asked = (
        Transact(1, (), (Read(CLUSTER), Read(LEDGER), rest)),
        Transact(2, (Unchanged(CLUSTER, 0), Unchanged(LEDGER, 0)), in_etcd(cluster, name)),
    )
    for one in asked:
        answer = carry(one)
        if isinstance(answer, EtcdFailed):
            raise Unavailable(f"etcd does not do it ({answer.text}); look there, and say it again")
        assert isinstance(answer, Transacted)
        rows = [row for rows in answer.read for row in rows]
        if rows or not answer.succeeded:
            raise StateError(_taken(place, {row.key: row.value for row in rows}))
    return identity_of(cluster)


def _taken(place: EtcdPlace, rows: dict[str, bytes]) -> str:
    if CLUSTER not in rows:
        return (
            f"the prefix {place.url} is not empty; nothing was founded. Give another; or, if a move"
            " to etcd was cut off, run snowmelt migrate again"
        )
    there: Founded = decoded(rows[CLUSTER], Founded, f"the record {CLUSTER!r} under {place.url}")
    return (
        f"the prefix {place.url} has cluster {identity_of(there.cluster)} ({there.name!r}); nothing"
        f" was founded. Start nodes with --coordinator {place.url}"
    )


def _kept(folder: Path, store: Store) -> StoredMembership:
    found = store.load([shared_key(MEMBERSHIP, key) for key in KEYS])
    records = tuple(one for one in found if isinstance(one, Record))
    damaged = tuple(one.key for one in found if isinstance(one, Damaged))
    try:
        return kept(own_start(MEMBERSHIP, records, damaged, 0))
    except Unreadable as error:
        raise StoreDamaged(f"{folder} is a node's, and {error}") from None


def _of_cluster(found: StoredMembership) -> str:
    return f" of cluster {identity_of(found.cluster)}" if found.cluster else ""


def _drawn() -> int:
    return 1 + randbits(62)
