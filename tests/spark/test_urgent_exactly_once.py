"""A stream from a priority queue into another is killed at random moments: every item once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from spark.cluster import Queues, queues_of, wait_until

ITEMS = 3_000
PROGRAM = """
import sys
import snowmelt.spark
url, checkpoint = sys.argv[1:]
quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
spark = snowmelt.spark.session("urgent", master="local[2]", **quick)
source = spark.readStream.format("snowmelt").option("url", url).option("kind", "priority")
rows = source.option("queue", "in").option("maxMessagesPerTrigger", 70).load()
sink = rows.selectExpr("value", "3 - priority priority").writeStream.format("snowmelt")
sink = sink.option("url", url).option("kind", "priority").option("queue", "out")
sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[Queues]:
    with queues_of(3, tmp_path) as running:
        yield running


def program(queues: Queues) -> subprocess.Popen[bytes]:
    """A session of its own: the driver, Java and all workers."""
    command = [sys.executable, "-c", PROGRAM, queues.url, queues.path("checkpoint")]
    with Path(queues.path("driver.log")).open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def done(queues: Queues) -> int:
    status = queues.priority("out").stats()
    return status.ready + status.staged


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_every_item_comes_once_whatever_is_killed(queues: Queues, seed: int) -> None:
    chance = Random(seed)
    kind = (4, int, float)[seed]
    queues.priority("out", replicas=2, priorities=kind).put(b"there")
    jobs = queues.priority("in", replicas=2, priorities=kind)
    jobs.put_many([(number % 4, b"%d" % number) for number in range(ITEMS)])
    for _ in range(4):
        running = program(queues)
        before = done(queues)
        wait_until(lambda before=before: done(queues) > before, 120)  # type: ignore[misc]
        time.sleep(chance.random() * 4)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    last = program(queues)
    assert last.wait(300) == 0, Path(queues.path("driver.log")).read_text()[-2000:]
    found = []
    for item in queues.priority("out").consume(timeout=2):
        found.append((item.priority, item.body))
        item.ack()
    came = sorted(int(body) for _, body in found if body != b"there")
    assert came == list(range(ITEMS))
    assert all(priority == 3 - int(body) % 4 for priority, body in found if body != b"there")
    assert (jobs.stats().ready, jobs.stats().leased) == (0, 0)
