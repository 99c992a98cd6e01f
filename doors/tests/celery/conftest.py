"""A real node, and connections of kombu to it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

import snowmelt_doors.celery  # noqa: F401  it makes the scheme known
from snowmelt.cli.local import LocalCluster, LocalNode


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    with LocalCluster(1, tmp_path_factory.mktemp("node"), 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[LocalNode]:
    """A node that a test may stop and start."""
    with LocalCluster(1, tmp_path, 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


@pytest.fixture
def connect(node: LocalNode) -> Iterator[Callable[..., Any]]:
    """Makes connections, which end with the test."""
    made = []

    def one(**options: Any) -> Any:
        made.append(kombu.Connection(node.url, transport_options=options))
        return made[-1]

    yield one
    for connection in made:
        connection.release()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that only this test has."""
    return "".join(one if one.isalnum() else "-" for one in request.node.name)[-80:].strip("-")
