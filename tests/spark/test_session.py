"""What a session is made of, and that there is one."""

import os
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from snowmelt.core.errors import BadOption
from snowmelt.spark import session
from snowmelt.spark.session import LOGGING, _settings

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def no_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_MASTER", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def tiny_source() -> type[DataSource]:
    """A class of this function, so that Spark's workers get it by value."""

    class Reader(DataSourceReader):
        def read(self, partition):  # noqa: ARG002
            yield (sys.executable,)

    class Tiny(DataSource):
        @classmethod
        def name(cls) -> str:
            return "tiny"

        def schema(self) -> str:
            return "python string"

        def reader(self, schema):  # noqa: ARG002
            return Reader()

    return Tiny


def test_workers_run_this_python(spark):
    spark.dataSource.register(tiny_source())
    [row] = spark.read.format("tiny").load().collect()
    assert row["python"] == sys.executable


def test_an_active_session_is_the_session(spark):
    assert session() is spark
    assert session("other", master="local[2]") is spark


def test_an_active_session_takes_settings_that_can_change(spark):
    session(**{"spark.sql.shuffle.partitions": "3"})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    session(**{"spark.sql.shuffle.partitions": "2"})


def test_another_master_than_the_active_one_is_refused(spark):
    assert spark is SparkSession.active()
    with pytest.raises(BadOption, match=r"master is 'local\[7\]'; allowed: local\[2\]"):
        session(master="local[7]")


def test_a_local_session_stays_on_this_machine_and_off_the_terminal(spark):
    said = spark.conf
    assert said.get("spark.driver.host") == said.get("spark.driver.bindAddress") == "127.0.0.1"
    assert said.get("spark.ui.enabled") == said.get("spark.ui.showConsoleProgress") == "false"
    assert said.get("spark.sql.shuffle.partitions") == "2"
    logs = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager
    assert logs.getRootLogger().getLevel().toString() == "ERROR"


def test_the_master_is_what_is_said_first(monkeypatch):
    assert _settings(None, {})["spark.master"] == "local[*]"
    monkeypatch.setenv("SPARK_MASTER", "spark://there:7077")
    assert _settings(None, {}) == {"spark.master": "spark://there:7077"}
    assert _settings(None, {"spark.master": "local"})["spark.master"] == "local"
    assert _settings("local[3]", {"spark.master": "yarn"})["spark.master"] == "local[3]"


def test_a_persons_settings_overrule_ours():
    settings = _settings("local[4]", {"spark.ui.enabled": "true", JAVA_OPTIONS: "-Xss4m"})
    assert settings["spark.sql.shuffle.partitions"] == "4"
    assert settings["spark.ui.enabled"] == "true"
    assert settings[JAVA_OPTIONS] == f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -Xss4m"


def test_a_persons_folder_of_settings_brings_its_own_logging(monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert JAVA_OPTIONS not in _settings("local", {})


def test_under_spark_submit_its_own_settings_stand(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert _settings(None, {"spark.app.id": "x"}) == {"spark.app.id": "x"}


def test_no_core_is_left_idle():
    cores = int(_settings(None, {})["spark.sql.shuffle.partitions"])
    assert cores == os.cpu_count()
