"""Each of the clients, and a real node."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from client.fakes import Awaited, Client
from runtime.conftest import pytest_pyfunc_call  # noqa: F401  tests that are coroutines
from snowmelt.cli.local import LocalCluster, LocalNode


@pytest.fixture(params=[snowmelt.Cluster, Awaited], ids=["blocking", "async"])
def connect(request: pytest.FixtureRequest) -> Callable[..., Client]:
    return request.param


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    with LocalCluster(1, tmp_path_factory.mktemp("node"), 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[LocalNode]:
    """A node that a test may stop and kill."""
    with LocalCluster(1, tmp_path, 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three, of which a test may kill one after the other."""
    with LocalCluster(3, tmp_path, 0.5) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        yield cluster


@pytest.fixture(params=["node", "embedded"])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A cluster, and a folder: the same calls do the same."""
    if request.param == "embedded":
        with snowmelt.open(tmp_path / "queues") as cluster:
            yield cluster
    else:
        node: LocalNode = request.getfixturevalue("node")
        with snowmelt.connect(node.url) as cluster:
            yield cluster


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that only this test has."""
    return "".join(one if one.isalnum() else "-" for one in request.node.name)[-90:].strip("-")
