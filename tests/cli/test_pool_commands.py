"""`snowmelt pool` against a real cluster: who is in which pool, whichever node introduces there."""

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from cli.program import snowmelt
from snowmelt.cli.local import LocalCluster, free_port
from snowmelt.client.connection.blocking import BlockingClient
from snowmelt.client.connection.url import read
from snowmelt.core.names import Address
from snowmelt.protocols.pool.introductions import Introduce, Introduced

MAKES = Introduce(
    "frames",
    Address("fe80::1", 5000),
    "camera",
    produces=True,
    consumes=False,
    rate=12.5,
    stock=1234,
    leaving=True,
)
BOTH = msgspec.structs.replace(MAKES, name="", produces=True, consumes=True, rate=0.0, stock=0)
NAMES = [f"pool-{number}" for number in range(8)]


@pytest.fixture
def said(cluster: LocalCluster) -> Iterator[None]:
    """Two processes that speak all the time, in a pool; one of them in others too."""
    stop = threading.Event()

    def speak() -> None:  # who is silent is forgotten in a second or two
        while not stop.wait(0.2):
            maker.call(MAKES, 10.0)
            for name in ("frames", *NAMES):
                both.call(msgspec.structs.replace(BOTH, pool=name), 10.0)

    maker, both = BlockingClient(read(cluster.url)), BlockingClient(read(cluster.url))
    try:
        assert isinstance(maker.call(MAKES, 10.0), Introduced)
        told = both.call(BOTH, 10.0)
        assert max(one.name for one in told.producers) == "camera"
        for name in NAMES:
            both.call(msgspec.structs.replace(BOTH, pool=name), 10.0)
        with ThreadPoolExecutor(1) as thread:
            speaking = thread.submit(speak)
            try:
                yield
            finally:
                stop.set()
                speaking.result(60)
        for name in ("frames", *NAMES):  # so that nothing of them is left for the next test
            for client in (maker, both):
                client.call(msgspec.structs.replace(BOTH, pool=name, gone=True), 10.0)
    finally:
        maker.close()
        both.close()


def pool(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return snowmelt("pool", *arguments, "--url", cluster.url)


def as_json(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert isinstance(told, dict)
    return told


@pytest.mark.usefixtures("said")
def test_pools_of_all_nodes_are_listed(cluster: LocalCluster) -> None:
    found = as_json(pool(cluster, "list", "--json"))["pools"]
    assert [one["pool"] for one in found] == ["frames", *NAMES]
    assert (found[0]["stock"], len(found[0]["consumers"])) == (1234, 1)


@pytest.mark.usefixtures("said")
def test_pools_are_shown(cluster: LocalCluster) -> None:
    (head, line, *rest) = pool(cluster, "list").stdout.splitlines()
    assert head.split() == ["pool", "producers", "consumers", "stock", "objects/s"]
    assert line.split() == ["frames", "2", "1", "1,234", "12.5"]
    assert len(rest) == len(NAMES)


@pytest.mark.usefixtures("said")
def test_one_pool_is_shown_with_its_producers(cluster: LocalCluster) -> None:
    title, _, *lines = pool(cluster, "stats", "frames").stdout.splitlines()
    assert title.strip() == "frames has 2 producers and 1 consumer"
    assert ["camera", "[fe80::1]:5000", "1,234", "12.5", "leaving"] in [
        line.split() for line in lines
    ]


@pytest.mark.usefixtures("said")
def test_one_pool_as_json(cluster: LocalCluster) -> None:
    told = as_json(pool(cluster, "stats", "frames", "--json"))
    (camera,) = [one for one in told["producers"] if one["name"] == "camera"]
    (other,) = [one for one in told["producers"] if one["name"] != "camera"]
    assert other["name"] == other["id"] == told["consumers"][0]
    del camera["id"]
    assert camera == {
        "name": "camera",
        "address": "[fe80::1]:5000",
        "rate": 12.5,
        "stock": 1234,
        "leaving": True,
    }


def test_a_pool_that_nobody_is_in(cluster: LocalCluster) -> None:
    assert pool(cluster, "stats", "empty").stdout == "empty has no members\n"
    told = as_json(pool(cluster, "stats", "empty", "--json"))
    assert told == {"pool": "empty", "producers": [], "consumers": [], "stock": 0}


def test_a_name_that_is_none_and_a_cluster_that_is_none(cluster: LocalCluster) -> None:
    ended = pool(cluster, "stats", "a/b")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "name is 'a/b'; allowed: " in ended.stderr
    ended = snowmelt(
        "pool", "list", "--timeout", "0.5", "--url", f"snowmelt://127.0.0.1:{free_port()}"
    )
    assert (ended.returncode, ended.stdout) == (4, "")
