"""The commands for queues, against a real cluster and a folder: bytes in, bytes out, exit codes."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cli.program import piped, snowmelt
from snowmelt import connect
from snowmelt.cli.local import LocalCluster, free_port

Run = Callable[..., subprocess.CompletedProcess[bytes]]
NASTY = bytes(range(256)) * 3 + b"\r\n\0"


@pytest.fixture(params=["cluster", "folder"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a command on queues, with what is piped into it."""
    where: tuple[str, ...]
    if request.param == "folder":
        where = ("--data", str(tmp_path / "queues"))
    else:
        cluster: LocalCluster = request.getfixturevalue("cluster")
        where = ("--url", cluster.url)

    def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return piped(*arguments, *where, given=given)

    return run


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return "".join(one if one.isalnum() else "-" for one in request.node.name)


def fine(ended: subprocess.CompletedProcess[bytes]) -> bytes:
    """What it printed, when it ended well and complained of nothing."""
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout


def as_json(ended: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    printed = fine(ended)
    assert printed.count(b"\n") == 1
    told = json.loads(printed)
    assert isinstance(told, dict)
    return told


def test_what_is_piped_in_comes_out_to_the_byte(run: Run, queue: str) -> None:
    assert fine(run("put", queue, given=NASTY)).startswith(b"1 item put into ")
    fine(run("put", queue, "-", given=b""))
    assert fine(run("get", queue)) == NASTY
    assert fine(run("get", queue)) == b""
    ended = run("get", queue)
    assert (ended.returncode, ended.stdout) == (8, b"")
    assert b"nothing came into" in ended.stderr
    assert b"--wait 10 waits" in ended.stderr
    assert b"--wait" not in run("get", queue, "--wait", "0.1").stderr


def test_get_tells_empty_missing_and_paused_apart(run: Run, queue: str) -> None:
    """Nobody there is `test_nobody_there_ends_with_4`."""
    ended = run("get", "nowhere")
    assert (ended.returncode, ended.stdout) == (9, b"")
    assert b"there is no queue 'nowhere'; snowmelt queues lists those there are" in ended.stderr
    said = fine(run("create", queue, "--lease", "60", "--priorities", "3")).decode()
    assert said.startswith(f"{queue} is made: priorities=3, ")
    assert "lease=60.0" in said
    ended = run("get", queue)
    assert (ended.returncode, f"into {queue} in 0 s; --wait 10".encode() in ended.stderr) == (
        8,
        True,
    )
    fine(run("put", queue, "one", "--delay", "1000"))
    assert b"; of its items 1 are delayed" in run("get", queue).stderr
    fine(run("put", queue, "two"))
    assert b"is paused" in fine(run("pause", queue))
    ended = run("get", queue)
    assert (ended.returncode, b"it is paused, with 1 ready" in ended.stderr) == (8, True)
    assert as_json(run("queues", "--json", "--over", "0"))["queues"]
    fine(run("resume", queue))
    assert fine(run("get", queue)) == b"two"


def test_create_leaves_what_is_there_as_asked_and_refuses_what_differs(
    run: Run, queue: str
) -> None:
    assert b" is made: " in fine(run("create", queue, "--max-items", "5"))
    for words in ((), ("--max-items", "5")):
        assert b" was there: " in fine(run("create", queue, *words))
    ended = run("create", queue, "--max-items", "6")
    assert (ended.returncode, b"max_items=5, asked 6" in ended.stderr) == (2, True)
    ended = run("create", queue, "--priorities", "int")
    assert (ended.returncode, ended.stdout) == (2, b"")
    ended = run("pause", "nowhere")
    assert (ended.returncode, b"there is no queue" in ended.stderr) == (9, True)


def test_one_item_is_shown_brought_back_moved_and_dropped(run: Run, queue: str) -> None:
    fine(run("put", queue, "one", "two", "three"))
    fine(run("put", queue, "later", "--delay", "600"))
    assert fine(run("item", queue, "0")).splitlines()[-1] == b"ready"
    assert fine(run("item", queue, "3")).splitlines()[-1].startswith(b"delayed for 9 min ")
    assert fine(run("item", queue, "99")) == b"never put\n"
    assert as_json(run("item", queue, "1", "--json"))["body"] == "two"
    assert fine(run("item", queue, "3", "--bring-back")) == b"it is ready\n"
    again = run("item", queue, "3", "--bring-back")
    assert (again.returncode, again.stdout) == (4, b"there was nothing to do\n")
    fine(run("create", queue + "-b"))
    moved = fine(run("item", queue, "1", "--move-to", queue + "-b"))
    assert moved == f"it is in {queue}-b now\n".encode()
    assert as_json(run("item", queue, "0", "--drop", "--json")) == {"done": True}
    assert fine(run("item", queue, "0")) == b"ended\n"
    assert fine(run("get", queue, "-n", "9", "--lines")) == b"three\nlater\n"
    assert fine(run("get", queue + "-b")) == b"two"
    both = run("item", queue, "2", "--drop", "--bring-back")
    assert both.returncode == 2


def test_the_life_of_an_item_is_shown(run: Run, queue: str) -> None:
    fine(run("create", queue))
    assert fine(run("trace", queue, "0")) == b"now:\n  never put\n"
    fine(run("put", queue, "one"))
    fine(run("get", queue, "--no-ack"))
    fine(run("get", queue))
    lines = fine(run("trace", queue, "0")).decode().splitlines()
    if "folder" in queue:  # each command opens it anew, and has no steps
        assert lines[0].startswith("not known: what happened to it before now")
        assert [line.split()[0] for line in lines[1:]] == ["put", "now:", "ended"]
        return
    words = [line[35:].split(" ", 1)[0] for line in lines[:-2]]
    assert words == ["put", "leased", "released", "leased", "acknowledged"], lines
    assert lines[-2:] == ["now:", "  ended"]
    told = as_json(run("trace", queue, "0", "--json"))
    assert [one["kind"] for one in told["entries"]] == words
    assert told["entries"][1]["program"] == "snowmelt-get"
    assert (told["unknown"], told["now"]["standing"]) == ("", "ended")


def test_words_and_files_are_items(run: Run, queue: str, tmp_path: Path) -> None:
    assert b"2 items put into" in fine(run("put", queue, "one", "zwö"))
    (tmp_path / "body").write_bytes(NASTY)
    fine(run("put", queue, "--file", str(tmp_path / "body"), "--header", "kind=nasty"))
    (first, *_, last) = as_json(run("peek", queue, "--json"))["items"]
    assert (first["body"], first["position"], first["headers"]) == ("one", 0, {})
    assert (last["headers"], "body" in last) == ({"kind": "nasty"}, False)
    assert fine(run("get", queue, "-n", "2", "--lines")) == "one\nzwö\n".encode()
    assert fine(run("get", queue)) == NASTY


def test_lines_go_in_and_come_out_by_the_thousand(run: Run, queue: str) -> None:
    lines = b"".join(b"line %d \xff\n" % at for at in range(25_000)) + b"the last has no end"
    assert fine(run("put", queue, "--lines", given=lines)).startswith(b"25,001 items put into ")
    assert fine(run("get", queue, "--all", "--lines")) == lines + b"\n"
    assert as_json(run("stats", queue, "--json"))["done"] == 25_001


def test_items_become_files(run: Run, queue: str, tmp_path: Path) -> None:
    fine(run("put", queue, "one", "two", "three"))
    assert fine(run("get", queue, "-n", "2", "--out", str(tmp_path / "out"))) == b""
    files = sorted((tmp_path / "out").iterdir())
    assert [(file.name, file.read_bytes()) for file in files] == [
        ("000000000000", b"one"),
        ("000000000001", b"two"),
    ]
    (tmp_path / "out" / "000000000002").mkdir()
    ended = run("get", queue, "--out", str(tmp_path / "out"))
    assert ended.returncode == 2
    assert fine(run("get", queue)) == b"three", "what could not be written went back"


def test_without_acknowledgement_they_stay(run: Run, queue: str) -> None:
    fine(run("put", queue, "one", "two"))
    for _ in range(2):
        assert fine(run("get", queue, "--all", "--lines", "--no-ack")) == b"one\ntwo\n"
    told = as_json(run("stats", queue, "--json"))
    assert (told["ready"], told["leased"], told["dead"]) == (2, 0, 0)
    assert told["settings"]["flush"] == "always"
    shown = fine(run("stats", queue))
    assert b"ready" in shown
    assert 0 <= told["oldest_ready"] < 600
    assert (told["oldest_leased"], told["put"], told["delivered"]) == (None, 2, 4)
    assert b" s\n" in shown.split(b"oldest ready")[1][:80]
    copies = 2 if "cluster" in queue else 1  # it has two nodes
    assert int(shown.split(b"durable copies")[1].split()[0]) == copies


def test_queues_are_listed(run: Run, queue: str) -> None:
    fine(run("put", queue, "one"))
    told = {one["queue"]: one for one in as_json(run("queues", "--json", "--over", "0"))["queues"]}
    assert (told[queue]["ready"], told[queue]["put"], told[queue]["order"]) == (1, 1, "fifo")
    assert queue.encode() in fine(run("queues", "--names")).splitlines()
    assert [one for one in fine(run("queues")).split() if one == queue.encode()]


def test_a_purge_needs_a_yes(run: Run, queue: str) -> None:
    fine(run("put", queue, "one", "two"))
    ended = run("purge", queue)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"Remove 2 items from" in ended.stderr
    assert b"no terminal to answer on: add --yes" in ended.stderr
    assert fine(run("purge", queue, "--yes")) == b"2 items removed from %b\n" % queue.encode()
    assert fine(run("redrive", queue, "--rate", "5")).startswith(b"0 items of ")
    assert fine(run("peek", queue)) == b""


def test_a_queue_is_deleted_and_its_name_is_free(run: Run, queue: str) -> None:
    fine(run("put", queue, "one", "two"))
    ended = run("delete", queue)
    assert (ended.returncode, ended.stdout, b"--yes" in ended.stderr) == (2, b"", True)
    ended = run("delete", queue, "--if-empty")
    assert (ended.returncode, b"has 2 ready" in ended.stderr) == (13, True)
    said = fine(run("delete", queue, "--yes"))
    assert said == b"%b is deleted, with 2 items (2 ready)\n" % queue.encode()
    ended = run("delete", queue, "--yes")
    assert (ended.returncode, b"there is no queue" in ended.stderr) == (9, True)
    fine(run("put", queue, "three", "--priorities", "2"))
    assert fine(run("get", queue)) == b"three"
    said = fine(run("delete", queue, "--if-empty"))
    assert said == b"%b is deleted, with nothing in it\n" % queue.encode()


def test_a_priority_queue_is_made_by_the_first_priority_and_taken_like_any(
    run: Run, queue: str, tmp_path: Path
) -> None:
    lines = b"sweep\ndust\n"
    fine(run("put", queue, "--priorities", "4", "--priority", "2", "--lines", given=lines))
    put = fine(run("put", queue, "fire", "smoke"))
    assert put.startswith(b"2 items put into %b with priority 0" % queue.encode())
    told = as_json(run("stats", queue, "--json"))
    assert (told["ready"], told["ready_of"]) == (4, [2, 0, 2, 0])
    assert told["settings"]["priorities"] == 4
    assert fine(run("peek", queue)).splitlines()[-1].startswith(b"  2 ")
    put_at = as_json(run("peek", queue, "--json"))["items"][0]["put_at"]
    assert datetime.fromisoformat(put_at).strftime("%F %T").encode() in fine(run("peek", queue))
    assert fine(run("get", queue, "-n", "2", "--lines")) == b"fire\nsmoke\n"
    fine(run("get", queue, "--out", str(tmp_path / "out")))
    (file,) = (tmp_path / "out").iterdir()
    assert file.read_bytes() == b"sweep"
    assert fine(run("purge", queue, "--yes")) == b"1 item removed from %b\n" % queue.encode()
    ended = run("put", queue, "x", "--priority", "4")
    assert (ended.returncode, b"priority is 4; allowed: 0 to 3" in ended.stderr) == (2, True)
    fine(run("put", f"{queue}-fifo", "x"))
    ended = run("put", f"{queue}-fifo", "x", "--priority", "1")
    assert (ended.returncode, b"is a fifo" in ended.stderr) == (2, True)


def test_peek_shows_what_is_leased_and_what_is_delayed(cluster: LocalCluster) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        return piped(*words, "--url", cluster.url)

    with connect(cluster.url) as client:
        orders = client.fifo("held-orders", lease=60)
        orders.put_many([b"one", b"two"])
        orders.put(b"later", delay=600)
        with orders.get():
            line = fine(run("peek", "held-orders", "--leased")).decode()
            assert line.startswith("       0         3  ")
            assert f"'one'  leased to pytest, process {os.getpid()} at " in line
            assert re.search(r"; its lease lasts (60\.0|[1-5][0-9]\.[0-9]) s more$", line.strip())
            (item,) = as_json(run("peek", "held-orders", "--leased", "--json"))["items"]
            assert (item["pid"], 0 < item["left"] <= 60) == (os.getpid(), True)
    (line,) = fine(run("peek", "held-orders", "--delayed")).decode().splitlines()
    assert "'later'  delayed for 9 min " in line
    ended = run("peek", "held-orders", "--delayed", "--leased")
    assert (ended.returncode, b"allowed: one of them" in ended.stderr) == (2, True)


@pytest.mark.parametrize("command", ["stats", "peek", "redrive"])
def test_a_queue_that_is_not_there_ends_with_9_and_is_not_made(run: Run, command: str) -> None:
    ended = run(command, "nowhere")
    assert (ended.returncode, ended.stdout) == (9, b"")
    assert b"there is no queue 'nowhere'" in ended.stderr
    assert b"nowhere" not in fine(run("queues", "--names"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("put", "a/b", "x"), "queue is 'a/b'"),
        (("put", "q", "x", "--header", "kind"), "--header is 'kind'; allowed: NAME=VALUE"),
        (("put", "q", "x", "--file", "y"), "--file is 'y'"),
        (("put", "q", "x", "--lines"), "--lines is 'x'"),
        (("put", "q", "--file", "/no/such"), "--file is '/no/such'"),
        (("put", "q", "x", "--delay", "-1"), "delay is -1"),
        (("get", "q", "-n", "0"), "--count is 0"),
        (("get", "q", "--wait", "nan"), "--wait is nan"),
        (("get", "q", "--out", "/dev/null/x"), "--out is '/dev/null/x'"),
        (("peek", "q", "-n", "0"), "count is 0"),
        (("redrive", "q", "--rate", "-1"), "--rate is -1"),
        (("stats", "q", "--timeout", "0"), "--timeout is 0"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    ended = snowmelt(*arguments, "--data", str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nobody_there_ends_with_4(tmp_path: Path) -> None:
    url = f"snowmelt://127.0.0.1:{free_port()}"
    for command in (("queues",), ("get", "orders")):
        ended = snowmelt(*command, "--url", url, "--timeout", "0.3")
        assert (ended.returncode, ended.stdout) == (4, "")
    (tmp_path / "file").touch()
    ended = snowmelt("queues", "--data", str(tmp_path / "file"))
    assert ended.returncode == 7


def test_settings_are_altered_and_told(run: Run, queue: str) -> None:
    fine(run("put", queue, "seed"))
    told = fine(run("alter", queue, "--lease", "10", "--max-items", "5", "--flush", "always"))
    assert told == f"{queue} has flush=always, lease=10.0, max_items=5 now\n".encode()
    settings = as_json(run("stats", queue, "--json"))["settings"]
    assert (settings["lease"], settings["max_items"]) == (10.0, 5)


def test_weights_are_altered_key_by_key(run: Run, queue: str) -> None:
    fine(run("put", queue, "seed"))
    fine(run("alter", queue, "--fair", "--weight", "gold=3", "--weight", "a=b=2"))
    told = fine(run("alter", queue, "--weight", "gold=1"))
    assert told == f"{queue} has weights={{'a=b': 2}} now\n".encode()
    assert as_json(run("stats", queue, "--json"))["settings"]["weights"] == {"a=b": 2}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--weight", "gold"), "--weight is 'gold'; allowed: KEY=N, with a whole number N"),
        (("--weight", "gold=3"), "weights is {'gold': 3}; allowed: only with fair=True"),
        ((), "option is 'nothing'; allowed: replicas, durable_copies"),
        (("--priorities", "4"), "--priorities is '4'; allowed: nothing; what order a queue has"),
        (("--flush", "soon"), "flush is 'soon'"),
    ],
)
def test_what_is_not_to_be_altered_says_why(
    run: Run, arguments: tuple[str, ...], text: str
) -> None:
    fine(run("put", "as-it-was", "seed"))
    ended = run("alter", "as-it-was", *arguments)
    assert ended.returncode == 2
    assert text in ended.stderr.decode()


def test_schedules_are_shown_of_one_queue_and_of_all(run: Run, queue: str) -> None:
    fine(run("put", queue, "sweep", "--every", "2h", "--schedule", "often"))
    fine(run("put", f"{queue}-2", "sweep", "--every", "1d"))
    fine(run("put", f"{queue}-3", "no schedule"))
    one = as_json(run("schedules", queue, "--json"))
    assert (one["queue"], [each["name"] for each in one["schedules"]]) == (queue, ["often"])
    told = as_json(run("schedules", "--json"))["queues"]
    mine = {each["queue"]: each["schedules"] for each in told if each["queue"].startswith(queue)}
    assert mine == {
        queue: one["schedules"],
        f"{queue}-2": as_json(run("schedules", f"{queue}-2", "--json"))["schedules"],
    }
    table = fine(run("schedules")).decode()
    assert re.search(rf"^{queue} +often +2h ", table, re.MULTILINE)
    typo = run("unschedule", queue, "oftne")
    assert (typo.returncode, typo.stdout) == (4, f"{queue} has no schedule oftne\n".encode())
    assert fine(run("unschedule", queue, "often")) == b"schedule often is removed\n"
    assert fine(run("schedules", queue)) == f"{queue} has no schedules\n".encode()
    wrong = run("put", queue, "x", "--every", "often")
    assert (wrong.returncode, b"allowed: five fields of cron" in wrong.stderr) == (2, True)
