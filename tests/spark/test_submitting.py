"""The command by which spark-submit runs a pipeline."""

import sys
from pathlib import Path

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.spark.submitting import submission

APP = Path("app.py")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    made = tmp_path / "pipeline.py"
    made.write_text("")
    return made


def test_here_the_driver_has_this_python_and_the_file(file: Path) -> None:
    made = submission(APP, file, ["--master", "spark://head:7077"], ["--drain"])
    assert made.program.endswith("/bin/spark-submit")
    run = ("app.py", "pipeline", "run", str(file), "--drain")
    assert made.words[1:] == ("--master", "spark://head:7077", *run)
    assert made.environment["PYSPARK_PYTHON"] == sys.executable
    assert made.environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_elsewhere_the_file_travels_along_and_the_python_is_that_of_the_place(file: Path) -> None:
    (file.parent / "spark-defaults.conf").write_text("spark.master yarn")
    made = submission(APP, file, ["--deploy-mode", "cluster", "--files", "a.txt"], [])
    run = ("app.py", "pipeline", "run", "pipeline.py")
    assert made.words[1:] == ("--deploy-mode", "cluster", "--files", f"a.txt,{file}", *run)
    assert "PYSPARK_PYTHON" not in made.environment


def test_a_standalone_master_runs_no_driver_and_a_file_has_to_be_there(file: Path) -> None:
    with pytest.raises(BadOption, match="Spark runs no driver of Python's there"):
        submission(APP, file, ["--master", "spark://head:7077", "--deploy-mode=cluster"], [])
    with pytest.raises(BadOption, match=r"FILE is 'no\.py'"):
        submission(APP, Path("no.py"), [], [])
