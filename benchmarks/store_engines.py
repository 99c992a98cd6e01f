"""Embedded engines on a queue's work, and what each does when its file is harmed.

    python benchmarks/store_engines.py [--seconds 0.8] [--harms 150] [--json]

The work: batches of items appended, read in order, deleted from the front. A record is a batch of
1, 100 or 1,000 items of 100 bytes; each commit is flushed, and carries one record or sixteen.

The harm: a process writes records and then dies, or closes as it should; then one bit of its files
is flipped, or an end is cut off, and another process opens what is left and reads all of it. Each
engine sits behind the same small adapter and has no checksums of ours; the last column of the first
table and the last lines of the second are our store.

RocksDB takes part when `rocksdict` is installed. Ratios are to the first engine, within this run.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import lmdb
from rich.console import Console
from rich.table import Table

from snowmelt.core.record import Erase, Record, Write
from snowmelt.store import Store

try:
    rocksdict: Any = importlib.import_module("rocksdict")
except ImportError:
    rocksdict = None

Pairs = list[tuple[bytes, bytes]]
ITEM_BYTES = 100
END = b"\xff" * 8


class Engine(Protocol):
    """What every engine is asked to do.

    `append` is atomic and flushed, `read` gives all records in order, `erase` takes a range.
    """

    def __init__(self, folder: Path) -> None: ...
    def append(self, records: Pairs) -> None: ...
    def read(self) -> Iterator[tuple[bytes, bytes]]: ...
    def erase(self, start: bytes, stop: bytes) -> None: ...
    def close(self) -> None: ...


class Lmdb:
    """A tree of copied pages in a mapped file."""

    def __init__(self, folder: Path) -> None:
        self.env = lmdb.open(str(folder / "data"), map_size=8 << 30, subdir=False, lib_version=0)

    def append(self, records: Pairs) -> None:
        with self.env.begin(write=True) as transaction:
            for key, value in records:
                transaction.put(key, value)

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        with self.env.begin() as transaction:
            yield from transaction.cursor()

    def erase(self, start: bytes, stop: bytes) -> None:
        with self.env.begin(write=True) as transaction:
            cursor = transaction.cursor()
            there = cursor.set_range(start)
            while there and cursor.key() < stop:
                there = cursor.delete() and bool(cursor.key())

    def close(self) -> None:
        self.env.close()


class Sqlite:
    """The standard library's, with a write-ahead log and every commit flushed."""

    def __init__(self, folder: Path) -> None:
        self.base = sqlite3.connect(folder / "data", isolation_level=None)
        self.base.execute("pragma journal_mode = wal")
        self.base.execute("pragma synchronous = full")
        self.base.execute(
            "create table if not exists record (key blob primary key, value blob) without rowid"
        )

    def append(self, records: Pairs) -> None:
        self.base.execute("begin immediate")
        self.base.executemany("insert or replace into record values (?, ?)", records)
        self.base.execute("commit")

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        yield from self.base.execute("select key, value from record order by key")

    def erase(self, start: bytes, stop: bytes) -> None:
        self.base.execute("delete from record where key >= ? and key < ?", (start, stop))

    def close(self) -> None:
        self.base.close()


class Rocks:
    """Sorted runs behind a log, with deletion by range."""

    recovery = "point_in_time"

    def __init__(self, folder: Path) -> None:
        options = rocksdict.Options(raw_mode=True)
        options.set_wal_recovery_mode(getattr(rocksdict.DBRecoveryMode, self.recovery)())
        self.base: Any = rocksdict.Rdict(str(folder / "data"), options)
        self.flushed = rocksdict.WriteOptions()
        self.flushed.sync = True

    def append(self, records: Pairs) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in records:
            batch.put(key, value)
        self.base.write(batch, self.flushed)

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        found = self.base.iter()
        found.seek_to_first()
        while found.valid():
            yield found.key(), found.value()
            found.next()
        found.status()  # a damaged run ends the walk early; this says so

    def erase(self, start: bytes, stop: bytes) -> None:
        self.base.delete_range(start, stop, self.flushed)

    def close(self) -> None:
        self.base.flush()
        self.base.close()


class RocksStrict(Rocks):
    """The same, refusing any log that is not whole."""

    recovery = "absolute_consistency"


class Snowmelt:
    """Our store: LMDB behind a log, audited when opened, each record sealed."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder / "data")

    def append(self, records: Pairs) -> None:
        self.store.commit([[Write(key, value) for key, value in records]])

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        start, limit = b"", 1
        while part := self.store.scan(start, END, limit):
            for found in part:
                if not isinstance(found, Record):
                    raise TypeError(f"{found.key!r} is damaged")
                yield found.key, found.value
            start, limit = part[-1].key + b"\0", min(2 * limit, 1024)

    def erase(self, start: bytes, stop: bytes) -> None:
        self.store.commit([[Erase(start, stop)]])

    def close(self) -> None:
        self.store.close()


ENGINES: dict[str, type[Engine]] = {"lmdb": Lmdb, "sqlite": Sqlite}
HARMED: dict[str, type[Engine]] = dict(ENGINES)
if rocksdict is not None:
    ENGINES["rocksdb"] = Rocks
    HARMED |= {"rocksdb": Rocks, "rocksdb strict": RocksStrict}
ENGINES["snowmelt"] = HARMED["snowmelt"] = Snowmelt


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


# --- speed ----------------------------------------------------------------------------------------


def appended(make: type[Engine], batch: int, together: int, seconds: float) -> float:
    """Items a second."""
    value = os.urandom(batch * ITEM_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        engine = make(Path(folder))
        engine.append([(key(0), value)])
        number = 1
        begin = time.perf_counter()
        while (now := time.perf_counter()) < begin + seconds:
            engine.append([(key(number + more), value) for more in range(together)])
            number += together
        engine.close()
    return (number - 1) * batch / (now - begin)


def drained(make: type[Engine], batch: int, records: int) -> dict[str, float]:
    """Builds a backlog, reads it in order, erases it from the front, and looks at what is left."""
    value = os.urandom(batch * ITEM_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        engine = make(Path(folder))
        for first in range(0, records, 1000):
            engine.append([(key(number), value) for number in range(first, first + 1000)])
        begin = time.perf_counter()
        count = sum(1 for _ in engine.read())
        read = time.perf_counter()
        assert count == records
        for first in range(0, records, 100):
            engine.erase(key(0), key(first + 100))
            if first % 2000 == 0:  # the front is looked for, as consumers do
                next(engine.read(), None)
        erased = time.perf_counter()
        engine.close()
        left = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return {
        "read items/s": records * batch / (read - begin),
        "erase items/s": records * batch / (erased - read),
        "left bytes/backlog": left / (records * batch * ITEM_BYTES),
    }


def measure(seconds: float) -> dict[str, dict[str, float]]:
    """A row for each kind of work: what each engine does, the better of two turns."""
    rows: dict[str, dict[str, float]] = {}
    for batch in (1, 100, 1000):
        for together in (1, 16):
            row = rows.setdefault(f"append items/s, {batch} a record, {together} a flush", {})
            for _ in range(2):
                for name, make in ENGINES.items():
                    rate = appended(make, batch, together, seconds / 2)
                    row[name] = max(row.get(name, 0.0), rate)
    for batch, records in ((1, 100_000), (100, 10_000), (1000, 1_000)):
        for name, make in ENGINES.items():
            for what, value in drained(make, batch, records).items():
                rows.setdefault(f"{what}, {batch} a record", {})[name] = value
    return rows


# --- harm -----------------------------------------------------------------------------------------

VERDICTS = ["harmless", "told", "LOST", "WRONG", "CRASHED", "HUNG"]


def in_child(work: Callable[[], int]) -> int:
    """The exit code of `work` in a process of its own, or minus the signal it died of."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            os._exit(work())
        except BaseException:  # whatever it says, it said so
            os._exit(VERDICTS.index("told"))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sample() -> Pairs:
    rng = random.Random(1)
    return [(key(at), rng.randbytes(rng.choice([90, 900, 9000]))) for at in range(300)]


def write_and_end(make: type[Engine], folder: Path, *, close: bool) -> int:
    engine = make(folder)
    for pair in sample():
        engine.append([pair])
    if close:
        engine.close()
    os._exit(0)


def read_all(make: type[Engine], folder: Path) -> int:
    found = list(make(folder).read())
    known = dict(sample())
    if any(known.get(name) != value for name, value in found):
        return VERDICTS.index("WRONG")
    return VERDICTS.index("harmless" if len(found) == len(known) else "LOST")


def injure(folder: Path, rng: random.Random) -> None:
    """Flips a bit, or cuts an end off, where there are bytes of records."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith(("-lock", "-shm", "LOCK", "LOG", "owner"))
    )
    [victim] = rng.choices(files, weights=[file.stat().st_size for file in files])
    data = bytearray(victim.read_bytes())
    if rng.random() < 0.8:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    else:
        del data[rng.randrange(len(data)) :]
    victim.write_bytes(data)


def harm(make: type[Engine], harms: int, *, close: bool) -> dict[str, int]:
    """How often each verdict fell."""
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as base:
        whole, harmed = Path(base) / "whole", Path(base) / "harmed"
        whole.mkdir()
        in_child(lambda: write_and_end(make, whole, close=close))
        for seed in range(harms):
            shutil.rmtree(harmed, ignore_errors=True)
            shutil.copytree(whole, harmed)
            injure(harmed, random.Random(seed))
            code = in_child(lambda: read_all(make, harmed))
            died = "HUNG" if code == -signal.SIGALRM else "CRASHED"
            seen[died if code < 0 else VERDICTS[code]] += 1
    return {verdict: seen[verdict] for verdict in VERDICTS}


# --- telling --------------------------------------------------------------------------------------


def spelled(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def show(rows: dict[str, dict[str, float]], harmed: dict[str, dict[str, int]]) -> None:
    console = Console()
    base, *others = ENGINES
    speed = Table(title="Work of a queue, every commit flushed (x: ratio to the first)")
    speed.add_column("")
    for name in ENGINES:
        speed.add_column(name, justify="right")
    for what, row in rows.items():
        cells = [f"{spelled(row[name])}  {row[name] / row[base]:.2f}x" for name in others]
        speed.add_row(what, spelled(row[base]), *cells)
    console.print(speed)
    table = Table(title="One injury to the files of a process that ended: what the next one sees")
    table.add_column("")
    for verdict in VERDICTS:
        table.add_column(verdict, justify="right")
    for name, counts in harmed.items():
        table.add_row(name, *(str(counts[verdict]) for verdict in VERDICTS))
    console.print(table)
    console.print("told: an error was raised. LOST: fewer records, and no error.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=0.8, help="for each append of each engine")
    parser.add_argument("--harms", type=int, default=150, help="injuries for each line")
    parser.add_argument("--json", action="store_true", help="print one JSON object and no tables")
    options = parser.parse_args()
    harmed = {}
    for name, make in HARMED.items():  # first, since it forks and some engines start threads
        if not options.json:
            print(f"harming {name} ...", file=sys.stderr)
        harmed[f"{name}, died"] = harm(make, options.harms, close=False)
        harmed[f"{name}, closed"] = harm(make, options.harms, close=True)
    if not options.json:
        print("measuring ...", file=sys.stderr)
    rows = measure(options.seconds)
    if options.json:
        print(json.dumps({"work": rows, "harm": harmed}))
    else:
        show(rows, harmed)


if __name__ == "__main__":
    main()
