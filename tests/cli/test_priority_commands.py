"""Commands for queues with any priorities, on a folder, in this process: a start takes its time."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from cli.conftest import Told, as_json

Run = Callable[..., Told]
LATE = 2**62


def test_any_number_is_a_priority_and_a_queue_tells_how_far_they_reach(run: Run) -> None:
    assert run("put", "jobs", "early", "--priority", "-5")[0] == 0
    assert run("put", "jobs", "late", "--priority", str(LATE))[0] == 0
    told = as_json(run("stats", "jobs", "--json"))
    assert (told["settings"]["priorities"], told["ready_of"]) == ("any int", [])
    assert told["ready_reach"] == {"first": -5, "median": -5, "last": LATE}
    assert re.findall(r"last priority +(\d+)", run("stats", "jobs")[1]) == [str(LATE)]
    first, last = run("peek", "jobs")[1].splitlines()
    assert first.startswith(f"{'-5':>19} ")
    assert last.startswith(f"{LATE} ")


def test_items_are_shown_by_their_rank(run: Run, tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.priority("jobs").put_many([(at, b"%d" % at) for at in range(-50, 51)])
        cluster.fifo("plain").put(b"x")
    assert run("select", "jobs", "2")[1].startswith("-49 ")
    assert run("quantile", "jobs", "0.5")[1].startswith("  0 ")  # also where it is 0
    assert as_json(run("quantile", "jobs", "0.5", "--json"))["item"]["priority"] == 0
    code, _, err = run("select", "jobs", "102")
    assert (code, err) == (8, "snowmelt: fewer than 102 items of jobs are ready\n")
    assert "this is a fifo" in run("quantile", "plain", "1")[2]
    assert "there is no queue 'nowhere'" in run("select", "nowhere", "1")[2]
    assert run("select", "jobs", "0")[0] == run("quantile", "jobs", "2")[0] == 2


def test_the_dead_come_back_at_a_rate(run: Run, tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs")
        jobs.put_many([(at, b"x") for at in range(3)])
        for item in jobs.get_many(3):
            item.nack(dead=True)
    assert run("redrive", "jobs", "--rate", "9") == (0, "3 items of jobs come back\n", "")


def test_a_queue_is_made_of_the_kind_that_is_said(run: Run, tmp_path: Path) -> None:
    assert "make it with priorities=float" in run("put", "soon", "x", "--priority", "2.5")[2]
    kind = ("--priorities", "float", "--largest-first")
    assert run("put", "soon", "x", "--priority", "2.5", *kind)[0] == 0
    assert run("put", "soon", "y", "--priority", "inf")[0] == 0
    assert as_json(run("peek", "soon", "--json"))["items"][0]["priority"] == "inf"
    assert "asked any int" in run("put", "soon", "z", "--priorities", "int")[2]
    assert (
        "--priority is 'late'; allowed: a number" in run("put", "q", "x", "--priority", "late")[2]
    )
    assert "--priorities is 'many'" in run("put", "q", "x", "--priorities", "many")[2]
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("plain").put(b"x")
    for words in (("--priority", "1"), ("--priorities", "int"), ("--largest-first",)):
        code, _, err = run("put", "plain", "x", *words)
        assert (code, f"{words[0]} is " in err, "plain is a fifo" in err) == (2, True, True)


@pytest.mark.parametrize("priorities", [4, int], ids=["four", "any"])
def test_a_queue_is_shown_and_put_into_by_its_priorities(
    run: Run, tmp_path: Path, priorities: Any
) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", priorities=priorities)
        jobs.put_many([(at % 3, b"%d" % at) for at in range(6)])
    assert run("put", "jobs", "new", "--priority", "1")[0] == 0
    code, _, err = run("put", "jobs", "new", "--priorities", "7")
    assert (code, "asked 7" in err) == (2, True), err
    told = as_json(run("stats", "jobs", "--json"))
    any_of_them = priorities is int
    assert told["settings"]["priorities"] == ("any int" if any_of_them else 4)
    assert (told["ready"], told["ready_of"]) == (7, [] if any_of_them else [2, 3, 2, 0])
    assert ("ready_reach" in told) == any_of_them
    shown = " ".join(run("stats", "jobs")[1].split())
    assert ("last priority" if any_of_them else "priority 1") in shown
    assert as_json(run("select", "jobs", "3", "--json"))["item"]["priority"] == 1
    assert as_json(run("quantile", "jobs", "1", "--json"))["item"]["priority"] == 2
    assert [line.split()[0] for line in run("peek", "jobs")[1].splitlines()] == list("0011122")
    assert "7 items removed from jobs" in run("purge", "jobs", "--yes")[1]
