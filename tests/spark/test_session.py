"""What a session is made of, and that there is one."""

import os
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from snowmelt.core.errors import BadOption, Unreachable
from snowmelt.spark import session
from snowmelt.spark.session import LOGGING, _settings, link_python
from snowmelt.spark.where import check_listening

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def no_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SPARK_MASTER",
        "SPARK_REMOTE",
        "SPARK_CONF_DIR",
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_SUBMIT_ARGS",
    ):
        monkeypatch.delenv(name, raising=False)


def settings(master: str | None = None, **conf: str) -> dict[str, str]:
    return _settings(master, None, conf)


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


def test_the_master_is_what_is_said_first(monkeypatch, tmp_path):
    assert settings() == settings("local[*]")
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.master   spark://filed:7077\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert settings() == {"spark.master": "spark://filed:7077"}
    monkeypatch.setenv("SPARK_MASTER", "spark://there:7077")
    assert settings() == {"spark.master": "spark://there:7077"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn --conf spark.x=1 pyspark-shell")
    assert settings() == {"spark.master": "yarn"}
    assert settings(**{"spark.master": "local"})["spark.master"] == "local"
    assert settings("local[3]", **{"spark.master": "yarn"})["spark.master"] == "local[3]"


def test_a_connect_server_that_is_said_gets_no_master(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://gate:15002")
    assert settings() == {"spark.remote": "sc://gate:15002"}
    asked = {"spark.remote": "sc://gate:15002", "spark.x": "1"}
    assert (
        settings(**{"spark.x": "1", "spark.master": "yarn", "spark.remote": "sc://gate:15002"})
        == asked
    )
    assert settings("local")["spark.master"] == "local"
    assert "SPARK_REMOTE" not in os.environ, "else Spark would go there all the same"


def test_master_and_remote_are_not_said_together():
    with pytest.raises(BadOption, match="remote is 'sc://gate'; allowed: none with master"):
        session(master="yarn", remote="sc://gate")


def test_a_persons_settings_overrule_ours(monkeypatch, tmp_path):
    given = settings("local[4]", **{"spark.ui.enabled": "true", JAVA_OPTIONS: "-Xss4m"})
    assert given["spark.sql.shuffle.partitions"] == "4"
    assert given["spark.ui.enabled"] == "true"
    assert given[JAVA_OPTIONS] == f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -Xss4m"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions=77")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert "spark.sql.shuffle.partitions" not in settings("local[4]")


def test_a_persons_folder_of_settings_brings_its_own_logging(monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert JAVA_OPTIONS not in settings("local")


def test_under_spark_submit_its_own_settings_stand(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert settings(**{"spark.app.id": "x"}) == {"spark.app.id": "x"}


@pytest.mark.parametrize(
    ("said", "master", "python"),
    [
        ({}, "spark://there:7077", sys.executable),
        ({}, "k8s://there:443", None),
        ({"spark.pyspark.python": "/opt/python"}, "yarn", "/opt/python"),
    ],
)
def test_executors_run_the_python_that_is_said_or_this_one(monkeypatch, said, master, python):
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    settings(master, **said)
    assert os.environ.get("PYSPARK_PYTHON") == python


def test_a_python_in_an_archive_is_there_on_the_driver_as_well(monkeypatch, tmp_path):
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    for _ in range(2):
        link_python(tmp_path)
        assert (tmp_path / "environment/bin/python").exists()
    monkeypatch.setenv("PYSPARK_PYTHON", "./other/bin/no-such-python")
    with pytest.raises(BadOption, match="a path that the driver has as well"):
        link_python(tmp_path)


def test_a_master_that_is_not_there_is_told_at_once():
    with pytest.raises(Unreachable, match=r"nobody answers at spark://127\.0\.0\.1:1 "):
        check_listening("spark://127.0.0.1:1")
    check_listening("yarn")


def test_no_core_is_left_idle():
    cores = int(settings()["spark.sql.shuffle.partitions"])
    assert cores == os.cpu_count()
