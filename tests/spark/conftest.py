"""One Spark session for all tests of a worker: it starts in seconds, a test takes a part of one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from snowmelt.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Tests are short: code compiled fast serves them better than fast code.
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    made = session("tests", master="local[2]", **quick)
    yield made
    made.stop()
