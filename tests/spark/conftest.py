"""One Spark session for all tests of a worker: it starts in seconds, a test takes a part of one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import warm
from snowmelt.spark import session
from snowmelt_world.standalone import quick


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    java = {"spark.driver.extraJavaOptions": quick()}
    tables = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("tables"))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", warm.PRELOADED)
        made = session("tests", master="local[2]", **java, **tables)
    yield made
    made.stop()
