"""What the pages of Spark show runs, each block as a program of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
URL = "snowmelt://127.0.0.1:4410"

Run = Callable[..., str]


def blocks(page: str, kind: str = "python") -> list[str]:
    return [text for one, text in BLOCK.findall((DOCS / page).read_text()) if one == kind]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.chdir(tmp_path)
    with LocalCluster(1, tmp_path / "node", 0.5) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def run(cluster: LocalCluster) -> Run:
    def run(text: str, *words: str) -> str:
        Path("page.py").write_text(text.replace(URL, cluster.url))
        first = ["page.py"] if not words else ["-m", "snowmelt", *words]
        where = os.environ | {"SNOWMELT_URL": cluster.url}
        ended = subprocess.run(
            [sys.executable, *first], capture_output=True, text=True, check=False, env=where
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout

    return run


@pytest.mark.soak
def test_the_tutorial(run: Run, cluster: LocalCluster) -> None:
    first, pipeline = blocks("tutorials/spark.md")
    with snowmelt.connect(cluster.url) as connected:
        orders = connected.fifo("orders")
        orders.put_many([b"a pan", b"two spoons", b"a very long knife"])
        run(first)
        assert run("", "get", "loud", "--all", "--lines").splitlines() == [
            "A PAN",
            "TWO SPOONS",
            "A VERY LONG KNIFE",
        ]
        connected.fifo("lines").put_many([b"a very long knife", b"two wooden spoons"])
        run(pipeline, "pipeline", "run", "page.py", "--drain")
        assert run("", "get", "loud", "--all", "--lines").split() == ["WOODEN", "SPOONS"]


@pytest.mark.soak
def test_priorities(run: Run, cluster: LocalCluster) -> None:
    (triage,) = blocks("how-to/spark-priorities.md")
    with snowmelt.connect(cluster.url) as connected:
        connected.fifo("raw").put_many([b"sweep the yard", b"dust", b"fire in the kitchen"])
    run(triage)
    said = run("", "get", "done", "--all", "--lines")
    assert said in blocks("how-to/spark-priorities.md", "")[0]
    assert len(said.splitlines()) == 3


@pytest.mark.soak
def test_ranks_and_a_history(run: Run) -> None:
    (ranks,) = blocks("research/selection.md")
    assert "1000000 0" in run(ranks)
    (check,) = blocks("how-to/checking-on-spark.md")
    put = '{"process":"p","kind":"put","values":["a"],"called":1,"returned":2}\n'
    Path("history.jsonl").write_text(put)
    assert "valid" in run(check)
