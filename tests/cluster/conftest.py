"""One small cluster of Spark's and one node of ours for all tests of a module."""

from collections.abc import Iterator

import pytest
from tests.cluster.bench import Bench, bench_of


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_of(tmp_path_factory.mktemp("spark")) as made:
        yield made
