"""The program as a person runs it, and a cluster to run it against."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from snowmelt.cli.local import LocalCluster


def snowmelt(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end."""
    environment = {name: value for name, value in os.environ.items() if "SNOWMELT" not in name}
    return subprocess.run(
        [sys.executable, "-m", "snowmelt", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment | {"COLUMNS": "100", "NO_COLOR": "1"} | more,
    )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(2, tmp_path_factory.mktemp("cluster"), 0.5) as cluster:
        cluster.start()
        yield cluster
