"""A cluster to run the program against."""

from collections.abc import Iterator

import pytest

from snowmelt.cli.local import LocalCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(2, tmp_path_factory.mktemp("cluster"), 0.5) as cluster:
        cluster.start()
        yield cluster
