"""What was planned with one cluster is not done in another that is found in its place."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

import snowmelt
from snowmelt.cli.local import LocalNode, free_port
from snowmelt.core.names import NodeId
from snowmelt.runtime.folders import found_on_disk
from snowmelt.spark.columns import source_schema
from snowmelt.spark.datasource import SnapshotReader
from snowmelt.spark.sink import BatchSink, sink
from snowmelt.spark.stream_source import StreamReader

Work = tuple[Callable[[Any], Any], Any]
EXECUTOR = """
import os, pickle, sys
import snowmelt.spark.datasource
for one in pickle.load(sys.stdin.buffer):
    if os.fork():
        os.wait()
        continue
    work, given = pickle.loads(one)
    try:
        told = work(given)
        if hasattr(told, "send"):
            told = [row for batch in told for row in batch["value"].to_pylist()]
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    print(told)
    break
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    made = LocalNode("n1", free_port(), tmp_path / "n1", ["--heartbeat", "0.3"])
    made.found()
    made.start()
    yield made
    made.kill()


def filled(url: str) -> None:
    with snowmelt.connect(url) as cluster:
        cluster.fifo("raw").put(b"one", timeout=20)
        cluster.priority("jobs").put(b"urgent", timeout=20)


def planned(url: str) -> list[Work]:
    """What a driver hands on to tasks: three of a source, and one of a sink."""
    given, rows = {"url": url, "timeout": "20"}, source_schema("false")
    snapshot = SnapshotReader({**given, "queue": "raw"}, rows)
    work: list[Work] = [(snapshot.read, one) for one in snapshot.partitions()]
    urgent = source_schema("false", priority=LongType())
    for reader in (
        StreamReader({**given, "queue": "raw"}, rows),
        StreamReader({**given, "queue": "jobs", "kind": "priority"}, urgent),
    ):
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(10))
        work += [(reader.read, one) for one in reader.partitions(start, end)]
    body = StructType([StructField("value", BinaryType(), nullable=False)])
    into = BatchSink(sink({**given, "queue": "raw"}, body, overwrite=False, streaming=False))
    return [*work, (into.write, iter([pa.record_batch({"value": pa.array([b"two"])})]))]


def done(work: bytes) -> list[str]:
    """Does each in a process that has met no cluster yet, as each of Spark's tasks may be."""
    command = [sys.executable, "-c", EXECUTOR]
    ended = subprocess.run(command, input=work, stdout=subprocess.PIPE, timeout=100, check=True)
    return ended.stdout.decode().splitlines()


def test_a_task_goes_on_in_the_cluster_that_its_batch_was_planned_with_or_not_at_all(
    node: LocalNode, tmp_path: Path
) -> None:
    filled(node.url)
    work = pickle.dumps([pickle.dumps(one) for one in planned(node.url)])
    *read, written = done(work)
    assert read == ["[b'one']", "[b'one']", "[b'urgent']"]
    assert "rows=1" in written
    other = found_on_disk(tmp_path / "other", NodeId("n1"))
    node.kill()
    node.folder.rename(tmp_path / "aside")
    (tmp_path / "other").rename(node.folder)
    node.start()
    filled(node.url)
    told = done(work)
    assert len(told) == 4
    assert all(one.startswith(f"OtherCluster: n1 is of cluster {other}") for one in told)
