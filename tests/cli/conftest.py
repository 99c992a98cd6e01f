"""A cluster to run the program against, and the program on a folder in this process."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from snowmelt.cli import main
from snowmelt.cli.local import LocalCluster

Told = tuple[int, str, str]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(2, tmp_path_factory.mktemp("cluster"), 0.5) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    """Runs a command on a folder: its exit code, and what it said. A start takes its time."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["snowmelt", *words, "--data", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err  # type: ignore[return-value]  # a number

    return run


def as_json(told: Told) -> dict[str, Any]:
    """What a command has said as JSON, and nothing else."""
    code, out, err = told
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found
