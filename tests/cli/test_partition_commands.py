"""Commands for queues of several partitions, on a folder, in this process."""

import re
from collections.abc import Callable
from pathlib import Path

import snowmelt
from cli.conftest import Told, as_json

Run = Callable[..., Told]


def test_a_queue_of_several_partitions_is_used_as_any(run: Run) -> None:
    assert run("put", "log", "one", "--partitions", "3") == (
        0,
        "1 item put into log at [0, 1)\n",
        "",
    )
    assert run("put", "log", "two", "three")[0] == 0
    rows = [line.split()[0] for line in run("queues")[1].splitlines()]
    assert rows == ["queue", "log"]
    assert [line.split()[-1] for line in run("peek", "log")[1].splitlines()] == [
        "'one'",
        "'two'",
        "'three'",
    ]
    assert run("get", "log", "-n", "2", "--lines")[1] == "one\ntwo\n"
    how = as_json(run("stats", "log", "--json"))
    assert (how["ready"], how["done"], how["settings"]["partitions"]) == (1, 2, 3)
    assert (how["leaders"], how["away"]) == (["embedded"] * 3, [])
    shown = run("stats", "log")[1]
    assert "log is open, in 3 partitions" in " ".join(shown.split())
    assert re.findall(r"partition (\d) +embedded", shown) == ["0", "1", "2"]
    assert run("purge", "log", "--yes")[1] == "1 item removed from log\n"
    assert run("delete", "log", "--yes") == (0, "log is deleted, with nothing in it\n", "")
    assert "log" not in run("queues")[1]


def test_one_with_priorities_is_made_too(run: Run, tmp_path: Path) -> None:
    words = "put", "jobs", "late", "--priority", "5", "--partitions", "2", "--priorities", "float"
    assert run(*words)[0] == 0
    assert run("put", "jobs", "soon", "--priority", "0.5")[0] == 0
    assert run("get", "jobs")[1] == "soon"
    assert run("select", "jobs", "1")[1].endswith("'late'\n")
    with snowmelt.open(tmp_path) as cluster:
        settings = cluster.priority("jobs").stats().settings
    assert (settings.partitions, settings.kind) == (2, "any float")


def test_it_is_made_before_anything_is_put(run: Run) -> None:
    assert "partitions=4" in run("create", "log", "--partitions", "4")[1]
    assert "log was there" in run("create", "log", "--partitions", "4")[1]
    assert "partitions=4, asked 5" in run("create", "log", "--partitions", "5")[2]


def test_how_many_there_are_is_settled(run: Run) -> None:
    assert run("put", "log", "one", "--partitions", "3")[0] == 0
    code, _, err = run("put", "log", "two", "--partitions", "4")
    assert (code, "partitions=3, asked 4" in err) == (2, True)
    code, _, err = run("alter", "log", "--partitions", "4")
    assert (code, "settled when it is made" in err) == (2, True)
    assert run("alter", "log", "--max-items", "30")[1] == "log has max_items=30 now\n"
    assert as_json(run("stats", "log", "--json"))["settings"]["max_items"] == 30
    assert run("put", "other", "x", "--partitions", "65")[0] == 2
