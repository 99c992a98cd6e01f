"""The store: one folder, one process, an ordered map of sealed records on LMDB.

    Store.open(folder)      takes the folder, looks at its stamp, audits the file, opens the engine,
                            and brings there what the log holds
    store.recover()         the small records, for a node that starts
    store.load, store.scan  some records; what fails its seal is named, never served
    store.commit(groups)    several atomic groups of changes, one flush for all of them

Rules:

1. What `commit` answered with None is on the disk and flushed (`flush=False` gives that up).
2. A group is made whole or not at all. One that finds no room is answered with `DiskFull` and has
   left no trace; the others of the same call go through.
3. When the disk fails in any other way, the groups that were under way are answered with
   `StoreError`: they may be there or not. From then on the store refuses all work, reading too, by
   raising it. A flush that failed is never tried again: the system may have thrown away what it
   could not write and would report success. Open the store anew; what is there then is what is
   known to be there.
4. Reading may be done from any thread while one commits; it sees the last commit, whole.
5. A small commit is written to the log (`log.py`), which waits for the disk once, and to a table in
   memory, which readers see over the engine. A large one goes to the engine at once, for its bytes
   would be written three times; so does one for which the log has no place, or the engine's room
   is not sure (`room.py`). Each transaction of the engine first makes all that the log holds, so
   the order stays, and the log is empty after it. Closing carries the log to the engine too.
6. A transaction of the engine that is tried for the log's sake and finds no room loses nothing and
   ends nothing: what it would have carried stays in the log.
7. The log goes on from a commit of the engine that is on the disk. A process that was killed may
   have left one that only the system's memory has, so whoever opens the store flushes it first.
"""

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, Self

import lmdb
import msgspec

from snowmelt.core.errors import (
    BadOption,
    DiskFull,
    MachineError,
    NodeRefused,
    StoreDamaged,
    StoreError,
)
from snowmelt.core.record import (
    BULK,
    KEY_BYTES_MAX,
    SCAN_RECORDS_MAX,
    Damaged,
    Found,
    Record,
    scanned,
)
from snowmelt.store.changes import Group, Measure, measured
from snowmelt.store.engine import DATA_NAME, FILES, make_change, open_engine, open_file
from snowmelt.store.folder import FULL, FolderLock, make_folder, naming, tighten
from snowmelt.store.log import WriteAheadLog
from snowmelt.store.room import Room
from snowmelt.store.shrinking import Shrinking
from snowmelt.store.stamp import Stamp
from snowmelt.store.table import Table, TableSnapshot

SIZE_MAX_DEFAULT: Final = 32 << 30
SIZE_MAX_LOWEST: Final = 1 << 20
_CLOSED: Final = "the store is closed"
_AFTER_BULK: Final = bytes([BULK[0] + 1])
_LOGGED_BYTES_MAX: Final = 64 << 10
"""Commits above this go to the engine at once (rule 5)."""
_MARK: Final = b"\xff" * (KEY_BYTES_MAX + 2)
"""A key that nobody can write or erase."""


class Recovered(msgspec.Struct, frozen=True):
    """Every small record in the order of keys, and the keys of those that are damaged."""

    records: tuple[Record, ...]
    damaged: tuple[bytes, ...]


class Statistics(msgspec.Struct, frozen=True):
    """What a store did since it was opened, and how full it is."""

    commits: int
    """Times that groups were made together, by the log or by the engine."""
    carries: int
    """Transactions of the engine, which took all with them that the log held."""
    flushes: int
    """Times the disk was waited for: as many as commits, or none with `flush=False`."""
    groups: int
    """Groups of changes that were made."""
    refused: int
    """Groups that found no room."""
    bytes_written: int
    """Bytes of keys and values in the groups that were made."""
    damaged_found: int
    """Records met whose seal did not fit; each time one is met counts."""
    bytes_used: int
    """Bytes of the pages that hold records, or may when the engine has what is in the log."""
    bytes_max: int
    """The `size_max` of this store."""
    bytes_free: int
    """Bytes that its disk has left, for all who write there."""


class _ToItsEnd:
    """After Ctrl-C, say, log, table and engine may not be as of one commit."""

    def __init__(self, interrupted: Callable[[], None]) -> None:
        self._interrupted = interrupted

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and not issubclass(kind, StoreError):
            self._interrupted()


class Store:
    """The durable records of one node.

    >>> from tempfile import TemporaryDirectory
    >>> from snowmelt.core.record import Write
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder) / "n1") as store:
    ...     store.commit([(Write(b"view", b"7"), Write(b"~item/1", b"one"))])
    ...     store.load([b"view", b"term"])
    ...     store.scan(b"~", b"~~", limit=10)
    ...     store.recover().records
    [None]
    (Record(key=b'view', value=b'7'), Missing(key=b'term'))
    [Record(key=b'~item/1', value=b'one')]
    (Record(key=b'view', value=b'7'),)
    """

    def __init__(
        self, owner: FolderLock, env: lmdb.Environment, stamp: Stamp, room: Room, log: WriteAheadLog
    ) -> None:
        """Takes over what `Store.open` made ready; that is the door."""
        self._owner = owner
        self._env = env
        self._identity = stamp.identity
        self._room = room
        self._log = log
        self._table = Table()
        self._shrinking = Shrinking(room.folder / DATA_NAME, stamp.identity)
        self._flush = env.flags()["sync"]
        self._writing = threading.Lock()
        self._to_its_end = _ToItsEnd(self._interrupted)
        self._seeing = threading.Lock()  # held by who reads the table, and who changes it
        self._refusal = ""  # why the store does no more work
        self._carries = self._commits = self._groups = self._refused = self._written = (
            self._damaged
        ) = 0

    @classmethod
    def open(cls, folder: Path, *, size_max: int = SIZE_MAX_DEFAULT, flush: bool = True) -> "Store":
        """Opens the store in this folder, or makes one there.

        `size_max` bounds the bytes of payloads; the file may grow above it by a reserve of an
        eighth, at least 16 MiB (see `room.py`). `flush=False` is for records that may be lost with
        the machine: it survives the death of the process, not of the power.
        """
        if not __debug__:  # whoever changes a folder opens it here: a node, a program, a rescue
            raise NodeRefused(
                "run without -O (or PYTHONOPTIMIZE): the machines' assertions are part of their "
                "safety"
            )
        if size_max < SIZE_MAX_LOWEST:
            raise BadOption("size_max", size_max, f"{SIZE_MAX_LOWEST} or more")
        with naming(folder), contextlib.ExitStack() as undo:
            make_folder(folder)
            owner = FolderLock(folder)
            undo.callback(owner.release)
            tighten(folder, FILES)
            env, stamp = open_engine(folder, size_max, flush=flush)
            undo.callback(env.close)
            log = WriteAheadLog(folder, stamp.identity, flush=flush)
            undo.callback(log.close)
            store = cls(owner, env, stamp, Room(folder / DATA_NAME, size_max, env), log)
            store._replay()
            undo.pop_all()
            return store

    def recover(self) -> Recovered:
        """Every record whose key does not begin with BULK, in order."""
        records: list[Record] = []
        damaged: list[bytes] = []
        with self._reading() as view:
            for start, stop in ((b"", BULK), (_AFTER_BULK, None)):
                for found in view.walk(start, stop):
                    if isinstance(found, Record):
                        records.append(found)
                    else:
                        damaged.append(found.key)
        return Recovered(tuple(records), tuple(damaged))

    def load(self, keys: Sequence[bytes]) -> tuple[Found, ...]:
        """What is under each of these keys, all as of one commit."""
        with self._reading() as view:
            return tuple([view.found(key) for key in keys])

    def scan(
        self,
        start: bytes,
        stop: bytes,
        limit: int = SCAN_RECORDS_MAX,
        bytes_max: int | None = None,
    ) -> list[Record | Damaged]:
        """The first `limit` records from `start` up to, not including, `stop`, in order.

        With `bytes_max`, no more of them than a `Scan` with it brings.
        """
        with self._reading() as view:
            part = islice(view.walk(start, stop), limit)
            return list(part if bytes_max is None else scanned(part, bytes_max))

    def commit(
        self, groups: Sequence[Group], measures: Sequence[Measure] | None = None
    ) -> list[MachineError | None]:
        """Makes these groups of changes with one flush; None for each that is safe now.

        With what they measure, where that is known.
        """
        measures = [measured(group) for group in groups] if measures is None else measures
        with self._writing, self._to_its_end:
            self._assert_working()
            alone = len(groups) == 1 and bool(groups[0])  # as mostly
            try:
                if alone and self._is_logged(groups[0], measures[0]):
                    return [None]
            except StoreError as error:
                return [error]
            answers: list[MachineError | None] = [*self._admitted(measures)]
            left = [at for at, answer in enumerate(answers) if answer is None]
            try:
                most = [groups[at] for at in left], [measures[at] for at in left]
                if self._made(*most, by_log=not alone):
                    left = []
                elif not self._log.empty:
                    self._carried(())
                while left:  # the engine found no room after all; each alone shows which it was
                    one = [groups[left[0]]], [measures[left[0]]]
                    if not self._made(*one, by_log=not alone):
                        text = f"{self._room.folder} has no room for the changes"
                        answers[left[0]] = DiskFull(text)
                    del left[0]
            except StoreError as error:  # rule 3: those that were answered before keep their answer
                for at in left:
                    answers[at] = error
            self._refused += sum([isinstance(answer, DiskFull) for answer in answers])
            return answers

    def commit_logged(self, group: Group, measure: Measure) -> bool:
        """Makes one group if that is one write to the log; if not, says False and leaves no trace.

        For whoever can't wait for a transaction of the engine, nor for a thread that makes one.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            with self._to_its_end:
                self._assert_working()
                return self._is_logged(group, measure)
        finally:
            self._writing.release()

    def shrink(self) -> float | None:
        """Gives back to the disk some of what was erased, when it is time (`shrinking.py`).

        The seconds until there may be more to do; None while there is nothing to give back.
        """
        rest = self._shrinking.rest(self._room)
        if rest == 0.0 and not self._refusal:
            with self._writing, self._to_its_end, contextlib.suppress(StoreError):
                self._assert_working()
                if (
                    self._shrinking.looks and not self._log.empty
                ):  # what it erased takes its room until then
                    self._carried(())
                if self._shrinking.step(self._env, self._room):
                    self._renew()
                rest = self._shrinking.rest(self._room)
        return None if self._refusal else rest

    def statistics(self) -> Statistics:
        return Statistics(
            commits=self._commits,
            carries=self._carries,
            flushes=self._commits if self._flush else 0,
            groups=self._groups,
            refused=self._refused,
            bytes_written=self._written,
            damaged_found=self._damaged,
            bytes_used=self._room.used,
            bytes_max=self._room.size_max,
            bytes_free=shutil.disk_usage(self._room.folder).free,
        )

    def forsake(self) -> None:
        """For a child after a fork: only the parent has the folder, and only it closes the rest."""
        self._refusal = _CLOSED
        self._owner.release()

    def close(self) -> None:
        """Gives the folder back. No other thread may be reading; closing twice is once."""
        with self._writing:
            if self._refusal != _CLOSED:
                broken, self._refusal = self._refusal, _CLOSED
                try:
                    self._shrinking.drop()
                    with contextlib.suppress(StoreError):  # an empty log for the next, if it can be
                        if not broken and not self._log.empty and not self._carried(()):
                            self._log.flush()
                    if not broken and not self._flush:
                        self._env.sync(True)
                finally:
                    self._refusal = _CLOSED
                    self._env.close()
                    self._log.close()
                    self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing --------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Brings to the engine what is found in the log (rule 7)."""
        try:
            if self._flush:
                self._env.sync(True)
        except lmdb.Error as error:
            raise self._broken(error) from error
        for change in self._log.replayed(self._env.info()["last_txnid"]):
            self._table.make(change)
        if not self._log.empty and not self._carried(()):
            raise DiskFull(
                f"{self._room.folder} has no room for what is safe in its log; give its disk "
                "room, or raise size_max"
            )

    def _renew(self) -> None:
        """The copy, which has all, becomes the file of records (rule 5 of `shrinking.py`)."""
        if (not self._log.empty and not self._carried(())) or not self._shrinking.flushed():
            return
        file, size_max = self._room.folder / DATA_NAME, self._room.size_max
        try:
            self._log.erase()
        except OSError as error:  # the engine has all that was in it
            if error.errno not in FULL:
                raise self._broken(error) from error
            self._shrinking.drop()
            return
        try:
            self._shrinking.place(self._env)
            env = open_file(file, self._env.info()["map_size"], flush=self._flush)
            self._room = Room(file, size_max, env)
        except (lmdb.Error, OSError, StoreError) as error:
            raise self._broken(error) from error
        with self._seeing:
            self._env = env
            self._log.begin(env.info()["last_txnid"])

    def _interrupted(self) -> None:
        self._refusal = f"a commit to {self._room.folder} was interrupted; open the store anew"

    def _admitted(self, groups: Sequence[Measure]) -> list[DiskFull | None]:
        try:
            answers = self._room.admit(groups)
            if any(answers) and self._shrinking.give_way():
                answers = self._room.admit(groups)
            if any(answers) and not self._log.empty and self._carried(()):
                answers = self._room.admit(groups)  # what was promised is known exactly
        except OSError as error:
            raise self._broken(error) from error
        return answers

    def _made(self, groups: Sequence[Group], measures: Sequence[Measure], *, by_log: bool) -> bool:
        """Makes the groups together; False when there is no room for all of them."""
        if any(groups):
            if not (by_log and self._logged(groups, measures)) and not self._carried(groups):
                return False
            self._commits += 1
        self._groups += len(groups)
        self._written += sum([one.bytes for one in measures])
        return True

    def _is_logged(self, group: Group, measure: Measure) -> bool:
        """Makes one group by the log, where the store's own size lets it in."""
        if not self._room.has(measure) or not self._logged([group], [measure]):
            return False
        self._commits += 1
        self._groups += 1
        self._written += measure.bytes
        return True

    def _logged(self, groups: Sequence[Group], measures: Sequence[Measure]) -> bool:
        """Makes the groups by the log; False when they are for the engine (rule 5)."""
        size = pages = changes = 0
        for one in measures:
            size, pages, changes = size + one.bytes, pages + one.pages, changes + one.changes
        try:
            if (
                size > _LOGGED_BYTES_MAX
                or not self._room.covers(pages, changes)
                or not self._log.append(groups)
            ):
                return False
            self._room.promise(pages, changes)
            with self._seeing:
                for group in groups:
                    self._table.make(*group)
        except OSError as error:
            # The engine's next commit makes void what was written in part.
            if error.errno in FULL and self._carried(()):
                return False
            raise self._broken(error) from error
        return True

    def _carried(self, groups: Sequence[Group]) -> bool:
        """Makes what the log holds and then these groups, in one transaction of the engine.

        False when it has no room for all of that.
        """
        before = self._env.info()["last_txnid"]
        try:
            large: set[bytes] = set()
            with self._env.begin(write=True) as transaction:
                if not self._log.empty and not self._table.values:
                    # Erasing what isn't there is no commit to the engine, and the log needs one.
                    transaction.put(_MARK, b"")
                    transaction.delete(_MARK)
                for change in chain(self._table.changes(), *groups):
                    make_change(transaction, self._identity, change, large)
        except lmdb.Error as error:
            if self._room.is_full(error) and _is_as_of(self._env, before):
                self._shrinking.give_way()
                return False
            raise self._broken(error) from error
        self._shrinking.made(chain(self._table.changes(), *groups))
        with self._seeing:
            self._table.clear()
            self._log.begin(self._env.info()["last_txnid"])
        self._room.committed(self._env)
        self._carries += 1
        return True

    def _broken(self, error: Exception) -> StoreError:
        """From now on nothing is written: what the disk holds is no longer known (rule 3)."""
        if isinstance(error, OSError) and error.errno is None:  # no system's: it was thrown in
            raise error
        self._refusal = f"the disk of {self._room.folder} failed ({error}); open the store anew"
        return StoreError(self._refusal)

    def _assert_working(self) -> None:
        if self._refusal:
            raise StoreError(self._refusal)

    # --- reading --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[TableSnapshot]:
        """One reader at a time, and nobody changes the table meanwhile."""
        self._assert_working()
        try:
            with self._seeing, self._env.begin() as transaction:
                carried = transaction.id() != self._log.generation  # and the table still there
                view = TableSnapshot(
                    transaction, Table() if carried else self._table, self._identity
                )
                yield view
                self._damaged += view.damaged
        except lmdb.Error as error:
            # The audit found the file sound when it was opened: it was harmed since.
            self._refusal = (
                f"the file of {self._room.folder} is damaged ({error}); restart to audit"
            )
            raise StoreDamaged(self._refusal) from error


def _is_as_of(env: lmdb.Environment, commit: int) -> bool:
    """Whether this commit is still the last: what came after it has left no trace.

    No root refers to pages that found no room. But the root is written too, where a copy is
    made on each write even in a place that was allocated; when that fails its fate is unknown,
    and the engine says so to whoever begins anew.
    """
    try:
        with env.begin():
            return bool(env.info()["last_txnid"] == commit)
    except lmdb.Error:
        return False
