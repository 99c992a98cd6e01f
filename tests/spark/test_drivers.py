"""Drivers as Spark's are, on copies of one checkpoint, some of them older, which die at any step.

Source and sink are called as Spark calls them, without Spark. Whatever order the steps come in, an
item comes out once; and from the newest checkpoint it goes on.
"""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from snowmelt.core.errors import AlreadyPublished, GroupHeld, LeaseLost
from snowmelt.spark.columns import source_schema
from snowmelt.spark.datasource import SnowmeltDataSource
from snowmelt.spark.stream_source import StreamReader
from spark.cluster import Queues, bodies, queues_of

STEPS = 60
DRIVERS_MAX = 3
CHECKPOINTS_MAX = 6
BOTH = ("offsets", "commits")
Refused = (GroupHeld, AlreadyPublished, LeaseLost)


class Checkpoint(msgspec.Struct):
    """Spark's two logs."""

    offsets: dict[int, dict[str, Any]] = {}
    commits: dict[int, None] = {}

    @property
    def last(self) -> int:
        return max(self.offsets, default=-1)

    def lose(self, logs: tuple[str, ...]) -> None:
        last = self.last
        for log in logs:
            getattr(self, log).pop(last, None)


class Stopped(Exception):
    """Two drivers are on one checkpoint, which Spark finds out, or this one was killed."""


class Driver:
    """One query, step by step, from its checkpoint on."""

    def __init__(self, life: "Life", checkpoint: Checkpoint) -> None:
        self.idle = 0
        self._life = life
        self._logs = checkpoint
        self._reader = life.reader()
        self._steps = self._run()

    def step(self) -> None:
        next(self._steps)

    def _run(self) -> Iterator[None]:
        logs, reader = self._logs, self._reader
        batch = logs.last
        if batch in logs.commits or batch < 0:
            start = logs.offsets.get(batch) or reader.initialOffset()
            batch += 1
        else:
            start = logs.offsets.get(batch - 1) or reader.initialOffset()
        while True:
            if batch not in logs.offsets:
                end = reader.latestOffset(start, self._life.limit())
                yield
                if end == start:
                    self.idle += 1
                    continue
                _log(logs.offsets, batch, end)
                yield
            end = logs.offsets[batch]
            if batch:
                reader.commit(logs.offsets[batch - 1])
            partitions = reader.partitions(start, end)
            yield
            rows = [row for one in partitions for got in reader.read(one) for row in values(got)]
            yield
            yield from self._life.write(rows, batch)
            _log(logs.commits, batch, None)
            start, batch, self.idle = end, batch + 1, 0
            yield


def _log(log: dict[int, Any], batch: int, told: Any) -> None:
    if batch in log:
        raise Stopped
    log[batch] = told


def values(rows: pa.RecordBatch) -> list[bytes]:
    found: list[bytes] = rows["value"].to_pylist()
    return found


class Life:
    """Queues, and what happens to them."""

    def __init__(self, queues: Queues, seed: int, *, several: bool) -> None:
        self.chance = Random(seed)
        self.put = 0
        name = f"life-{seed}-{several}"
        self._queues = queues
        self._name = name
        self._sources = [f"{name}.{at}" for at in range(self.chance.choice((1, 2, 3)))]
        self._sinks = [f"{name}.out-{at}" for at in range(3 if several else 1)]
        self._checkpoints = [Checkpoint()]
        self._drivers: list[Driver] = []
        for source in self._sources:
            self._feed(source)

    def live(self) -> None:
        """Some steps; then whichever checkpoint is the newest goes on to the end."""
        for _ in range(STEPS):
            self._act()
        self._drivers.clear()
        order = sorted(self._checkpoints, key=lambda one: (one.last, len(one.commits)))
        assert any(self._drained(one) for one in reversed(order)), "none goes on"

    def came_out(self) -> list[int]:
        there = self._queues.there()
        sinks = [self._queues.fifo(name) for name in self._sinks if name in there]
        return sorted(int(body) for sink in sinks for body in bodies(sink))

    def _act(self) -> None:
        chance, way = self.chance, self.chance.random()
        if way < 0.12:
            self._feed(chance.choice(self._sources))
        elif way < 0.2 and len(self._drivers) < DRIVERS_MAX:
            self._drivers.append(Driver(self, chance.choice(self._checkpoints)))
        elif way < 0.26 and self._drivers:
            self._drivers.pop(chance.randrange(len(self._drivers)))
        elif way < 0.32 and len(self._checkpoints) < CHECKPOINTS_MAX:
            older = copy.deepcopy(chance.choice(self._checkpoints))
            logs = chance.choice((BOTH, BOTH, BOTH, BOTH[:1], BOTH[1:]))
            for _ in range(chance.choice((0, 0, 1, 1, 2))):
                older.lose(logs)
            self._checkpoints.append(older)
        elif self._drivers:
            driver = chance.choice(self._drivers)
            try:
                driver.step()
            except (*Refused, Stopped):
                self._drivers.remove(driver)

    def _drained(self, checkpoint: Checkpoint) -> bool:
        try:
            driver = Driver(self, checkpoint)
            while not driver.idle:
                driver.step()
        except Refused:
            return False
        return True

    def _feed(self, source: str) -> None:
        count = self.chance.randrange(1, 4)
        some = [b"%d" % item for item in range(self.put, self.put + count)]
        self._queues.fifo(source).put_many(some)
        self.put += count

    def limit(self) -> ReadAllAvailable | ReadMaxRows:
        rows = self.chance.choice((0, 1, 2, 3, 5))
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def reader(self) -> StreamReader:
        options = {"url": self._queues.url, "timeout": "20", "queues": ",".join(self._sources)}
        options["failOnOlderCheckpoint"] = "false"
        return StreamReader(options, source_schema("false"))

    def write(self, rows: list[bytes], batch: int) -> Iterator[None]:
        """Staged in another order and by other tasks than before, and perhaps for other queues."""
        self.chance.shuffle(rows)
        schema = StructType().add("value", "binary").add("key", "binary")
        options = {"url": self._queues.url, "timeout": "20", "txnappid": self._name}
        if len(self._sinks) > 1:
            schema = schema.add("queue", "string")
        else:
            options["queue"] = self._sinks[0]
        writer = SnowmeltDataSource(options).streamWriter(schema=schema, overwrite=False)
        tasks = self.chance.choice((1, 2, 3))
        staged = [writer.write(self._columns(rows[task::tasks])) for task in range(tasks)]
        yield
        writer.commit(staged, batch)
        yield

    def _columns(self, rows: list[bytes]) -> Iterator[pa.RecordBatch]:
        keys = [b"k" if int(row) % 3 == 0 else None for row in rows]
        columns = {"value": pa.array(rows, pa.binary()), "key": pa.array(keys, pa.binary())}
        if len(self._sinks) > 1:
            columns["queue"] = pa.array(
                [self.chance.choice(self._sinks) for _ in rows], pa.string()
            )
        yield pa.record_batch(columns)


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_each_item_comes_out_once_whatever_drivers_there_are(
    queues: Queues, seed: int, several: bool
) -> None:
    life = Life(queues, seed, several=several)
    life.live()
    assert life.came_out() == list(range(life.put))
