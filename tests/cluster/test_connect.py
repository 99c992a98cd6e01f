"""A Connect server on the cluster: sources, sinks and pipelines of a program without Spark."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from tests.cluster.bench import Bench
from tests.cluster.standalone import connect_server
from tests.cluster.test_standalone import RUN

from snowmelt.cli.local import free_port

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("grpc") is None, reason="needs the packages of pyspark[connect]"
    ),
]


@pytest.fixture(scope="module")
def gate(bench: Bench) -> str:
    """A server with our package, and where it is."""
    return connect_server(bench.spark, {"PYSPARK_PYTHON": sys.executable})


@pytest.mark.soak
def test_a_session_is_the_connect_servers_where_the_variable_says(bench: Bench, gate: str) -> None:
    bench.queues.fifo("far").put_many([b"a pan", b"two spoons"])
    folder = str(bench.folder / "far")
    said = {"SPARK_REMOTE": gate, "JAVA_HOME": "/no/java/here"}
    found = bench.driver("stream", bench.url, folder, "far", variables=said)
    assert found == {"master": bench.spark.url}
    assert bench.bodies("far.loud") == [b"A PAN", b"TWO SPOONS"]


@pytest.mark.soak
def test_a_pipeline_runs_over_connect_and_counts_what_it_made(bench: Bench, gate: str) -> None:
    bench.queues.fifo("single").put_many([b"%d" % number for number in range(20)])
    variables = {"PARQUET": str(bench.folder / "parquet")}
    where = ("--url", bench.url, "--checkpoints", str(bench.folder / "places"))
    done = bench.run(*RUN, *where, "--remote", gate, **variables)
    assert done.returncode == 0, done.stderr
    assert [stage["out"] for stage in json.loads(done.stdout)["stages"]] == [20, 20]


@pytest.mark.soak
def test_functions_are_done_while_the_queue_is_read_over_connect(bench: Bench, gate: str) -> None:
    bench.queues.fifo("plain").put_many([b"%d" % number for number in range(20)])
    words = ("pipeline", "run", str(Path(__file__).with_name("tagging.py")), "--drain", "--json")
    where = ("--url", bench.url, "--checkpoints", str(bench.folder / "tags"), "--remote", gate)
    done = bench.run(sys.executable, "-m", "snowmelt", *words, *where)
    assert done.returncode == 0, done.stderr
    assert [stage["out"] for stage in json.loads(done.stdout)["stages"]] == [20, 20]
    assert bench.bodies("twice") == sorted(b"once/plain/%d" % number for number in range(20))


@pytest.mark.soak
def test_each_batch_goes_to_a_function_over_connect(bench: Bench, gate: str) -> None:
    bench.queues.fifo("each").put_many([b"1", b"2", b"3"])
    folder = str(bench.folder / "each")
    found = bench.driver("each_batch", bench.url, folder, "each", variables={"SPARK_REMOTE": gate})
    assert found == {"cores": 2}
    assert bench.bodies("each.counted") == [b"3"]


@pytest.mark.soak
def test_a_server_that_is_not_there_is_told_at_once(bench: Bench) -> None:
    nowhere = f"sc://127.0.0.1:{free_port()}"
    bench.queues.fifo("single").put_many([b"x"])
    done = bench.run(*RUN, "--url", bench.url, "--remote", nowhere, PARQUET=str(Path("out")))
    assert done.returncode == 4
    assert f"nobody answers at {nowhere}" in done.stderr


@pytest.mark.soak
def test_a_server_without_the_package_is_told_before_the_first_query(bench: Bench) -> None:
    bare = connect_server(bench.spark, {"PYSPARK_PYTHON": sys.base_prefix + "/bin/python3"})
    done = bench.run(*RUN, "--url", bench.url, "--remote", bare, PARQUET=str(Path("out")))
    assert done.returncode == 2
    assert "snowmelt: the Spark server" in done.stderr
    assert "install snowmelt[spark] there" in done.stderr
