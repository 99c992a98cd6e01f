"""`snowmelt advise`, as a person runs it."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.program import snowmelt
from client.pool_process import use_up
from snowmelt import connect
from snowmelt.cli.local import LocalCluster
from snowmelt.cli.main import program
from snowmelt.cli.options import ClusterOptions
from snowmelt.client.connection.steps import run
from snowmelt.client.pool.status import describe
from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.protocols.pool.introductions import PoolStatus
from timing import until

pytest.importorskip("numpy")

FEW = ("--producers", "12", "--consumers", "20", "--produce-rate", "10", "--consume-rate", "5")


def advised(*arguments: str) -> dict[str, Any]:
    ended = snowmelt("advise", *arguments, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert isinstance(told, dict)
    return told


def test_settings_are_advised_with_reasons_and_alternatives() -> None:
    ended = snowmelt("advise", *FEW, "--object-size", "64kB")
    assert (ended.returncode, ended.stderr) == (0, "")
    first, _, bottleneck, *lines = ended.stdout.splitlines()
    assert first.startswith('cluster.pool("frames", buffers=')
    assert bottleneck.startswith("- consumers are the bottleneck: they use 100 objects a second")
    assert [line for line in lines if line.startswith(("advised ", "default "))]


def test_advice_as_json() -> None:
    told = advised(*FEW, "--groups", "2:9,10:1", "--pool", "images")
    assert told["setting"]["access"] == "adaptive"
    assert told["python"].startswith(f'cluster.pool("images", buffers={told["setting"]["buffers"]}')
    assert told["outcome"]["throughput"] > 0.95 * 100
    assert {"advised", "default"} >= {told["alternatives"][-1]["name"]}
    assert told["measured"] is None


def test_the_advice_is_checked_by_simulation() -> None:
    pytest.importorskip("numba")
    told = advised(*FEW, "--check")
    predicted, simulated = told["outcome"], told["simulated"]
    assert simulated["throughput"] == pytest.approx(predicted["throughput"], rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--producers", "3"), "--consumers is 0; allowed: 1 to 10000"),
        ((*FEW, "--object-size", "big"), "--object-size is 'big'; allowed: a size, as 100, 64kB"),
        ((*FEW, "--memory", "1kB"), "--memory is 1000; allowed: 1e+06 to "),
        ((*FEW, "--links", "-1"), "--links is -1; allowed: 0"),
        ((*FEW, "--groups", "3:x"), "--groups is '3:x'; allowed: count:relative rate"),
        (("--from-cluster", "snowmelt://h:1"), "--pool is ''; allowed: the name of a pool"),
        (
            ("--from-cluster", "snowmelt://h:1", "--pool", "p", "--watch", "0"),
            "--watch is 0.0; allowed: 1 to 3600 seconds",
        ),
    ],
)
def test_bad_input_is_named(arguments: tuple[str, ...], text: str) -> None:
    ended = CliRunner().invoke(program(), ["advise", *arguments])
    assert isinstance(ended.exception, BadOption)
    assert str(ended.exception).startswith(text)


# --- from a pool that runs -----------------------------------------------------------------------


@pytest.fixture
def running(cluster: LocalCluster) -> Iterator[None]:
    """A pool in which two make objects, 20 a second each, and one uses 10 a second."""
    over = threading.Event()

    def make() -> None:
        with connect(cluster.url) as connected:
            pool = connected.pool("watched", buffers=2)
            while not over.is_set():
                try:
                    pool.await_room(timeout=0.1)  # a wait counts when it ends
                    over.wait(0.05)
                    pool.put(b"x" * 500, timeout=0.5)
                except SnowmeltError:  # there is no room, which is what is measured
                    continue
            use_up(pool)

    def use() -> None:
        with connect(cluster.url) as connected:
            for _ in connected.pool("watched", max_hops=2).consume(timeout=5):
                over.wait(0.1)
                if over.is_set():
                    return

    threads = [threading.Thread(target=one) for one in (make, make, use)]
    for one in threads:
        one.start()
    try:
        with ClusterOptions(cluster.url).clients() as clients:
            until(lambda: all_reported(run(clients, describe("watched", 10.0))))
        yield
    finally:
        over.set()
        for one in threads:
            one.join(20)


def all_reported(status: PoolStatus) -> bool:
    """Who is not in the first of two looks is in no difference of the two."""
    reports = (*status.made, *status.used)
    return len(reports) == 3 and all(report.age for report in reports)


@pytest.mark.usefixtures("running")
def test_a_running_pool_is_watched_and_predicted(cluster: LocalCluster) -> None:
    arguments = ("--from-cluster", cluster.url, "--pool", "watched", "--watch", "3")
    told = advised(*arguments)
    seen = told["measured"]
    assert (seen["producers"], seen["consumers"], seen["object_bytes"]) == (2, 1, 500)
    assert seen["setting"]["buffers"] == 2
    assert seen["setting"]["max_hops"] == 2
    # Five a second is what each can give; on a busy machine all of them are slower than they would.
    assert 7 < seen["produce_rate"] < 26
    assert 4 < seen["consume_rate"] < 13
    assert seen["throughput"] == pytest.approx(told["predicted"]["throughput"], rel=0.5)
    assert 0 < seen["producer_use"] < seen["consumer_use"]
    assert seen["consumer_use"] > 0.5


def test_nobody_is_in_the_pool(cluster: LocalCluster) -> None:
    ended = snowmelt(*("advise", "--from-cluster", cluster.url, "--pool", "nobody", "--watch", "1"))
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "nobody produces in nobody" in ended.stderr
