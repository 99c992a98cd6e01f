"""A real node, and a name: for the tests of all doors.

A test module says `pytest_plugins = ("door_nodes",)`. A `conftest.py` would do without, but one
is in `tests` already, and where doctests are collected two of one name are one module.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from snowmelt.cli.local import LocalCluster, LocalNode


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    with LocalCluster(1, tmp_path_factory.mktemp("node"), 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[LocalNode]:
    """A node that a test may stop and kill."""
    with LocalCluster(1, tmp_path / "node", 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that only this test has."""
    return "".join(one if one.isalnum() else "-" for one in request.node.name)[-40:].strip("-")
