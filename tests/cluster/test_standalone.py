"""A standalone master and two workers, as processes: what the documentation names works there."""

import importlib.util
import json
import sys
import tarfile
from pathlib import Path

import pytest
from tests.cluster.bench import Bench

from snowmelt.client.fifo.face import Fifo

pytestmark = pytest.mark.timeout(300)  # each driver starts a Java, and so does each executor
PIPELINE = str(Path(__file__).with_name("doubling.py"))
RUN = (sys.executable, "-m", "snowmelt", "pipeline", "run", PIPELINE, "--drain", "--json")


def emptied(bench: Bench, name: str) -> Fifo:
    """A queue as if no test had used it: without items, and without groups."""
    queue = bench.queues.fifo(name)
    queue.put(b"this makes it")
    for group in queue.groups():
        queue.group(group.name).release()
    queue.purge()
    return queue


@pytest.mark.wide
def test_a_session_runs_where_sparks_own_file_says_with_the_python_of_its_driver(
    bench: Bench,
) -> None:
    bench.queues.fifo("orders").put_many([b"a pan", b"two spoons"])
    said = bench.settings("conf", **{"spark.master": bench.spark.url})
    found = bench.driver("stream", bench.url, str(bench.folder), "orders", variables=said)
    assert found == {"master": bench.spark.url}
    assert bench.bodies("orders.loud") == [b"A PAN", b"TWO SPOONS"]


@pytest.mark.soak
def test_a_pipeline_runs_on_the_master_that_its_command_names(bench: Bench) -> None:
    bench.queues.fifo("single").put_many([b"%d" % number for number in range(100)])
    said = bench.settings("plain") | {"PARQUET": str(bench.folder / "parquet")}
    where = ("--url", bench.url, "--checkpoints", str(bench.folder / "places"))
    on = ("--master", bench.spark.url, "--conf", "spark.app.name=command")
    done = bench.run(*RUN, *where, *on, **said)
    assert done.returncode == 0, done.stderr
    assert [stage["out"] for stage in json.loads(done.stdout)["stages"]] == [100, 100]


@pytest.mark.soak
def test_a_shipped_environment_is_the_executors_python(bench: Bench) -> None:
    bench.queues.fifo("shipped").put_many([b"a pan"])
    archive = environment_archive(bench.folder)
    conf = {"spark.master": bench.spark.url, "spark.archives": f"{archive}#environment"}
    said = bench.settings("shipped", **conf) | {"PYSPARK_PYTHON": "./environment/bin/python"}
    bench.driver("stream", bench.url, str(bench.folder), "shipped", variables=said)
    assert bench.bodies("shipped.loud") == [b"A PAN"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("python", "complaint"),
    [
        ("/no/such/python", "executors can't run Python: Cannot run program"),
        (sys.base_prefix + "/bin/python3", "lacks what it needs: No module named"),
    ],
)
def test_what_executors_lack_is_a_sentence_before_the_first_batch(
    bench: Bench, python: str, complaint: str
) -> None:
    bench.queues.fifo("single").put_many([b"x"])
    said = bench.settings(f"lacking-{len(python)}", **{"spark.master": bench.spark.url})
    variables = said | {"PYSPARK_PYTHON": python, "PARQUET": str(bench.folder / "other")}
    places = str(bench.folder / f"places-{len(python)}")
    done = bench.run(*RUN, "--url", bench.url, "--checkpoints", places, **variables)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "docs/how-to/spark-cluster.md" in done.stderr


@pytest.mark.soak
def test_a_pipeline_is_run_by_spark_submit(bench: Bench) -> None:
    emptied(bench, "single").put_many([b"%d" % number for number in range(100)])
    made = bench.queues.fifo("doubled").stats().tail if "doubled" in bench.queues.queues() else 0
    said = bench.settings("submitted") | {"PARQUET": str(bench.folder / "submitted" / "parquet")}
    where = ("--url", bench.url, "--checkpoints", str(bench.folder / "submitted" / "places"))
    words = ("pipeline", "submit", PIPELINE, "--drain", "--json", "--stage", "double", *where)
    on = ("--spark", f"--master {bench.spark.url} --name submitted")
    done = bench.run(sys.executable, "-m", "snowmelt", *words, *on, **said)
    assert done.returncode == 0, done.stderr
    assert bench.queues.fifo("doubled").stats().tail - made == 100


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs snowmelt[connect]")
def test_state_is_kept_on_executors_and_told_in_update_mode(bench: Bench) -> None:
    said = bench.settings("states", **{"spark.master": bench.spark.url})
    folder = str(bench.folder / "states-places")
    for bodies in ([b"one", b"two"], [b"three"]):
        bench.queues.fifo("events").put_many(bodies)
        bench.driver("states", bench.url, folder, "events", variables=said)
    assert bench.bodies("events.counts") == [b"2", b"3"]


def environment_archive(folder: Path) -> Path:
    """An environment as an archive: a `bin/python`, which runs the one that runs this."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(script, "bin/python")
    return archive
