"""What was planned with one cluster is not done in another that is found in its place."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from snowmelt.spark.batch_source import SnapshotReader
from snowmelt.spark.columns import source_schema
from snowmelt.spark.sink import BatchSink, sink
from snowmelt.spark.stream_source import StreamReader

Work = tuple[Callable[[Any], Any], Any]
EXECUTOR = """
import pickle, sys
work, given = pickle.load(sys.stdin.buffer)
told = work(given)
rows = hasattr(told, "send")
print([row for batch in told for row in batch["value"].to_pylist()] if rows else told)
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


def done(work: Work) -> subprocess.CompletedProcess[bytes]:
    """Does it in a process that has met no cluster yet, as each of Spark's tasks may be."""
    command = [sys.executable, "-c", EXECUTOR]
    return subprocess.run(
        command, input=pickle.dumps(work), capture_output=True, timeout=100, check=False
    )


def test_a_task_goes_on_in_the_cluster_that_its_batch_was_planned_with_or_not_at_all(
    node: LocalNode, tmp_path: Path
) -> None:
    filled(node.url)
    work = planned(node.url)
    with ThreadPoolExecutor(2) as threads:
        told = [ended.stdout.decode() for ended in threads.map(done, work)]
        assert told[:3] == ["[b'one']\n", "[b'one']\n", "[b'urgent']\n"]
        assert "rows=1" in told[3]
        other = found_on_disk(tmp_path / "other", NodeId("n1"))
        node.kill()
        node.folder.rename(tmp_path / "aside")
        (tmp_path / "other").rename(node.folder)
        node.start()
        filled(node.url)
        for ended in threads.map(done, work):
            assert f"OtherCluster: n1 is of cluster {other}" in ended.stderr.decode()
