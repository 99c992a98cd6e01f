"""The coordinator of a cluster founded anew from its members' folders, when its disk is lost.

What a member's folder knows, and what follows from it:

| of | a member's disk has | what may be missing | so |
|---|---|---|---|
| itself | id, birth, starts | nothing | `membership.rescuing`, rule 24 |
| views | the last it was told | later ones, told to others | rules 21 and 23 there |
| a queue's home | home, term, fence, of its copy | what other disks have | `queue.rescuing` |
| a queue's items | its copy | what only lost disks had | rules 2 to 4 there |
| batons | nothing | values: the coordinator had them | lost; fences go on |
| pools, topics | nothing | nothing | they begin anew |

Rules:

1. Nodes are stopped: each folder is held, as a node holds its own, until the end.
2. Nothing in a member's folder is changed. All is written in a new folder, in one step; so whatever
   ends this program, there is a new coordinator or there is none.
3. A folder that holds anything is no place for it, were it the old coordinator's: that one is to be
   started, and nothing is to be rescued.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from secrets import randbits
from time import time_ns
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption, StateError, StoreBusy, StoreDamaged, StoreVersion
from snowmelt.core.names import NodeId, node_id
from snowmelt.core.node import Started
from snowmelt.core.record import BULK, Change, Write
from snowmelt.protocols.baton import fences
from snowmelt.protocols.host import own_start, shared_key, shared_range
from snowmelt.protocols.membership import rescuing as views
from snowmelt.protocols.membership.disk import LEDGER, SELF, Self, Unreadable, kept, twice
from snowmelt.protocols.membership.rescuing import Cannot, Witness
from snowmelt.protocols.membership.view import Ledger
from snowmelt.protocols.queue.controller import rescuing as homes
from snowmelt.protocols.queue.controller.rescuing import Housed, Trace
from snowmelt.runtime.folders import MEMBERSHIP, check_form, check_new, looked_at
from snowmelt.store import Store
from snowmelt.store.stamp import read_stamp

FIFO: Final = b"fifo/"
BATON: Final = b"baton/"


class Folder(msgspec.Struct, frozen=True):
    path: Path
    witness: Witness
    traces: tuple[Trace, ...]
    """Of the fifos of which it has a copy."""
    bodies: tuple[str, ...]
    """Of which fifos there are items."""

    @property
    def keeper(self) -> str:
        """As the fifo names this disk."""
        own = self.witness.own
        return f"{own.id}/{own.birth:x}"


class RescuePlan(msgspec.Struct, frozen=True):
    """What is to be done, and what is lost."""

    data: Path
    me: Self
    ledger: Ledger
    folders: tuple[Folder, ...]
    lost: tuple[NodeId, ...]
    """Whose disks are lost; the coordinator's first."""
    fifos: tuple[Housed, ...]
    first_term: int

    def changes(self) -> tuple[Change, ...]:
        """All that is written in the new folder."""
        own = [
            *twice(SELF, msgspec.msgpack.encode(self.me)),
            *twice(LEDGER, self.ledger.written()),
        ]
        of_batons = fences.founded_anew(time_ns())
        return (
            *_shared(MEMBERSHIP, own),
            *_shared(FIFO, homes.written(self.fifos, self.first_term)),
            *_shared(BATON, of_batons),
        )


class Rescue:
    """Holds the folders from looking to writing (rule 1).

    Used in a `with`; `plan` raises `StateError` with what to do when these folders are not enough.
    """

    def __init__(self, data: Path, members: Sequence[Path], lost: Sequence[str]) -> None:
        self._stack = ExitStack()
        self._data = data
        self._paths = members
        self._lost = [node_id(one) for one in lost]

    def __enter__(self) -> "Rescue":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self) -> RescuePlan:
        """Reads the folders, and says what comes of them."""
        if any(one.resolve() == self._data.resolve() for one in self._paths):
            raise BadOption("--data", str(self._data), "a folder of its own, not a member's")
        _check_empty(self._data)
        folders = tuple(_read(path, self._stack.enter_context(_held(path))) for path in self._paths)
        witnesses = [one.witness for one in folders]
        found = [trace for one in folders for trace in one.traces]
        try:
            views.check_named(witnesses, self._lost, self._keepers(folders, found))
        except Cannot as error:
            raise StateError(str(error)) from None
        coordinator = views.newest(witnesses).coordinator
        lost = [one for one in self._lost if one != coordinator]
        me = Self(coordinator, randbits(63), 0)
        ledger = views.founded_anew(witnesses, me, lost, [randbits(63) for _ in lost])
        keepers = [*(one.keeper for one in folders), f"{me.id}/{me.birth:x}"]
        bodies = [queue for one in folders for queue in one.bodies]
        fifos = homes.housed(found, keepers, 1 + len(lost), bodies)
        return RescuePlan(
            self._data,
            me,
            ledger,
            folders,
            (coordinator, *lost),
            fifos,
            homes.first_term(fifos),
        )

    def carry_out(self, plan: RescuePlan) -> None:
        # Rule 2.
        with Store.open(plan.data) as store:
            if store.recover().records:
                raise StateError(f"{plan.data} is not empty any more; nothing was written")
            (error,) = store.commit([plan.changes()])
        if error is not None:
            raise error

    def _keepers(self, folders: Sequence[Folder], found: Sequence[Trace]) -> list[str]:
        """Who keeps copies, by what the folders say; a disk that was lost earlier is none."""
        there = {one.witness.own.id for one in folders}
        return [node for node in homes.kept_at(found) if node not in there]


def _check_empty(data: Path) -> None:
    # Rule 3.
    check_new(data)
    found = looked_at(data)
    if found.ledger is not None:
        raise StateError(
            f"{data} is the folder of a coordinator, and it reads well: there is nothing to rescue."
            f" Start it: snowmelt node --data {data}"
        )
    if found.id:
        raise BadOption("--data", str(data), "a new folder; this one is a node's")


def _held(path: Path) -> Store:
    if not path.is_dir() or read_stamp(path) is None:
        raise BadOption("--from", str(path), "the folder of a node; this is none")
    try:
        return Store.open(path)
    except StoreBusy as error:
        raise StoreBusy(f"{error}. Nodes must be stopped before they are rescued from") from None


def _read(path: Path, store: Store) -> Folder:
    check_form(path, store)
    there = store.recover()
    own = {
        prefix: own_start(prefix, there.records, there.damaged, 0) for prefix in (MEMBERSHIP, FIFO)
    }
    witness = _witness(path, own[MEMBERSHIP])
    name = f"{witness.own.id}/{witness.own.birth:x}"
    of_fifo = own[FIFO]
    try:
        traces = homes.traces(name, f"{name}/{witness.own.start}", of_fifo.records, of_fifo.damaged)
    except StoreVersion as error:
        raise StoreVersion(f"{path}: {error}") from error
    return Folder(path, witness, tuple(traces.values()), tuple(_bodies(store)))


def _witness(path: Path, own: Started) -> Witness:
    try:
        found = kept(own)
    except Unreadable as error:
        raise StoreDamaged(f"{path}: {error}; say --lost for this node") from None
    if found.self is None:
        raise BadOption("--from", str(path), "the folder of a node that was a member")
    if found.ledger is not None:
        raise StateError(
            f"{path} is the folder of {found.self.id}, who decides for its cluster: start it, there"
            " is nothing to rescue"
        )
    return Witness(found.self, found.view)


def _bodies(store: Store) -> Iterator[str]:
    """The names of fifos of which there are items, each found by one look."""
    queue = ""
    while True:
        begin, end = shared_range(FIFO, *homes.body_range(queue))
        there = store.scan(begin, end, limit=1)
        if not there:
            return
        queue = homes.queue_of(BULK + there[0].key.removeprefix(BULK + FIFO))
        yield queue


def _shared(prefix: bytes, changes: Sequence[Change]) -> list[Write]:
    return [
        Write(shared_key(prefix, one.key), one.value) for one in changes if isinstance(one, Write)
    ]
