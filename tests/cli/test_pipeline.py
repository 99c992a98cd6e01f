"""The commands for pipelines and groups, as a person runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import snowmelt as library
from cli.program import snowmelt
from snowmelt.cli.local import LocalCluster, free_port
from snowmelt_world.standalone import quick

WORDS = Path(__file__).parents[2] / "examples" / "words" / "pipeline.py"
COPIES = """
from snowmelt.spark import Pipeline
from tail import with_tail

def pipeline():
    return (
        Pipeline("{name}")
        .stage("first", source="{name}-in", sink="{name}-mid", worker=with_tail)
        .stage("second", source="{name}-mid", sink="{name}-out", worker=with_tail)
    )
"""


@pytest.fixture
def copies(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    name = request.node.name.replace("_", "-")[-20:].strip("-")
    (tmp_path / "tail.py").write_text("def with_tail(body):\n    return [body + b'!']\n")
    file = tmp_path / f"{name}.py"
    file.write_text(COPIES.format(name=name))
    return file


def test_a_pipeline_is_drawn(copies: Path) -> None:
    ended = snowmelt("pipeline", "show", str(copies))
    name = copies.stem
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        f"pipeline {name}",
        f"{name}-in  ──> first (worker)  ──> {name}-mid",
        f"{name}-mid ──> second (worker) ──> {name}-out",
    ]


def test_workers_drain_without_spark_and_are_accounted_for(
    copies: Path, cluster: LocalCluster, tmp_path: Path
) -> None:
    name = copies.stem
    with library.connect(cluster.url) as connection:
        connection.fifo(f"{name}-in").put_many([b"%d" % one for one in range(500)])
    where = ("--url", cluster.url, "--checkpoints", str(tmp_path / "places"), "--drain")
    ended = snowmelt("pipeline", "run", str(copies), *where, "--json")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert (told["pipeline"], told["drained"]) == (name, True)
    counts = [(one["stage"], one["state"], one["in"], one["out"]) for one in told["stages"]]
    assert counts == [("first", "done", 500, 500), ("second", "done", 500, 500)]
    assert "first running" in ended.stderr
    assert not (tmp_path / "places" / name / "_spark.log").exists()
    with library.connect(cluster.url) as connection:
        assert connection.fifo(f"{name}-out").peek(1)[0].body == b"0!!"
    again = snowmelt("pipeline", "run", str(copies), *where)
    assert again.returncode == 0, again.stderr
    assert "second  done" in again.stdout


def test_a_master_that_is_not_there_is_told_at_once(cluster: LocalCluster, tmp_path: Path) -> None:
    nowhere = f"spark://127.0.0.1:{free_port()}"
    with library.connect(cluster.url) as connection:
        connection.fifo("lines").put(b"x")
    where = ("--url", cluster.url, "--checkpoints", str(tmp_path / "places"))
    ended = snowmelt("pipeline", "run", str(WORDS), *where, "--master", nowhere, "--drain")
    assert ended.returncode == 4
    assert f"nobody answers at {nowhere}" in ended.stderr


@pytest.mark.wide
def test_the_example_runs_on_spark_and_ends(cluster: LocalCluster, tmp_path: Path) -> None:
    with library.connect(cluster.url) as connection:
        connection.fifo("lines").put_many([b"a yellow elephant, and a mouse", b"", b"purple"])
    places = str(tmp_path / "places")
    java = ("--conf", f"spark.driver.extraJavaOptions={quick()}")
    where = ("--url", cluster.url, "--checkpoints", places)
    ended = snowmelt("pipeline", "run", str(WORDS), *where, *java, "--drain", seconds=110)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    with library.connect(cluster.url) as connection:
        loud = sorted(one.body for one in connection.fifo("loud").peek(10))
    assert loud == [b"ELEPHANT", b"PURPLE", b"YELLOW"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "a Python file with a pipeline in it"),
        ("x = 1\n", "with 0 pipelines"),
        ("x = 1\ny = x / 0\n", "at line 2 it raised ZeroDivisionError: division by zero"),
        ("x = (\n", "at line 1 it raised SyntaxError"),
    ],
)
def test_a_file_without_a_pipeline_is_told_in_a_sentence(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    file = tmp_path / "some_pipeline.py"
    if text is not None:
        file.write_text(text)
    ended = snowmelt("pipeline", "show", str(file))
    assert ended.returncode == 2
    assert complaint in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_program_starts_without_spark_and_says_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyspark'] = None; from snowmelt.cli.main import run; run()"
    file = tmp_path / "some_pipeline.py"
    file.write_text("from snowmelt.spark import Pipeline\np = Pipeline('p')\n")
    for arguments, exit_code, said in [
        (("--version",), 0, ""),
        (("pipeline", "show", str(file)), 2, 'pip install "snowmelt[spark]"'),
    ]:
        ended = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == exit_code, ended.stderr
        assert said in ended.stderr


def test_groups_are_listed_and_released(cluster: LocalCluster) -> None:
    where = ("--url", cluster.url)
    with library.connect(cluster.url) as connection:
        queue = connection.fifo("grouped")
        queue.put_many([b"one", b"two", b"three"])
        assert "grouped has no groups" in snowmelt("groups", "list", "grouped", *where).stdout
        queue.group("night").advance(items_max=2)
    listed = snowmelt("groups", "list", "grouped", "--json", *where)
    (one,) = json.loads(listed.stdout)["groups"]
    assert (one["name"], one["done"], one["holding"]) == ("night", 0, 2)
    assert "night" in snowmelt("groups", "list", "grouped", *where).stdout
    unasked = snowmelt("groups", "release", "grouped", "night", *where)
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    wrong = snowmelt("groups", "release", "grouped", "day", "--yes", *where)
    assert (wrong.returncode, "allowed: night" in wrong.stderr) == (2, True)
    done = snowmelt("groups", "release", "grouped", "night", "--yes", *where)
    assert done.stdout == "2 items of night went back into grouped\n"
    with library.connect(cluster.url) as connection:
        assert connection.fifo("grouped").stats().ready == 3
