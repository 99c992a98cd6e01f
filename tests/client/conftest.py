"""Each of the clients, and a real node."""

from collections.abc import Callable, Iterator
from pathlib import Path

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
