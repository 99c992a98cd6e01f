"""The commands against a real cluster and the simulated world: what they print and end with."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import snowmelt as snowmelt_client
from cli.program import snowmelt
from snowmelt.cli import local
from snowmelt.cli.local import LocalCluster, free_port
from snowmelt.cli.main import COMMANDS, ELSEWHERE, program
from snowmelt.core.errors import CallerError, Unavailable


def as_json(*arguments: str, code: int = 0) -> dict[str, Any]:
    """What a command prints with --json: one object, and nothing else."""
    ended = snowmelt(*arguments, "--json")
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.count("\n") == 1
    told = json.loads(ended.stdout)
    assert isinstance(told, dict)
    return told


def test_the_version_is_printed() -> None:
    ended = snowmelt("--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip().count(".") == 2


def test_status_shows_how_a_node_sees_the_cluster(cluster: LocalCluster) -> None:
    told = as_json("status", "--url", cluster.url)
    assert told["standing"] == "current"
    assert [member["id"] for member in told["view"]["members"]] == ["n1", "n2"]
    assert {one["version"] for one in told["view"]["members"]} == {snowmelt_client.__version__}
    shown = snowmelt("status", "--url", cluster.url)
    assert shown.returncode == 0
    assert "n1 is current in view" in shown.stdout
    assert "coordinator" in shown.stdout
    assert "n1: its records take " in shown.stdout
    assert " GiB left" in shown.stdout
    assert told["drained"] == ""
    assert 0 < told["disk"]["bytes_used"] < told["disk"]["bytes_max"]
    assert told["disk"]["bytes_free"] > 0
    by_environment = snowmelt("status", SNOWMELT_URL=cluster.nodes[1].url)
    assert "n2 is current in view" in by_environment.stdout


def test_status_with_counts_shows_the_process_too(cluster: LocalCluster) -> None:
    told = as_json("status", "--counts", "--url", cluster.url)
    assert told["process"]["node"] == "n1"
    assert told["process"]["connections_total"] >= 1


def test_ping_times_calls(cluster: LocalCluster) -> None:
    told = as_json("ping", "--url", cluster.url, "--count", "5", "--size", "1000000")
    assert (told["count"], told["size"]) == (5, 1_000_000)
    assert 0 < told["median_ms"] <= told["max_ms"]
    shown = snowmelt("ping", "--url", cluster.url, "--count", "2")
    assert shown.stdout.startswith("2 x 64 bytes there and back: median ")


def test_forget_frees_an_id_and_refuses_one_that_is_present(cluster: LocalCluster) -> None:
    assert snowmelt("forget", "n9", "--url", cluster.url).stdout == "n9 is free\n"
    ended = snowmelt("forget", "n2", "--url", cluster.nodes[1].url)  # which sends it to n1
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "n2 is present in view" in ended.stderr


def test_forget_shows_the_queues_that_only_an_absent_node_has(tmp_path: Path) -> None:
    with LocalCluster(2, tmp_path, 0.2) as two:
        two.start()
        with snowmelt_client.connect(two.url) as client:
            client.priority("urgent", replicas=2).put(b"x")
            at = {}
            for number in range(40):
                queue = client.fifo(f"q{number}", replicas=1)
                queue.put(b"x")
                at[queue.stats().leader] = f"q{number}"
                if len(at) == 2:
                    break
        (name,) = (queue for master, queue in at.items() if master.startswith("n2"))
        two.nodes[1].kill()
        two.wait_for(["n1"], 30.0)
        asked = snowmelt("forget", "n2", "--url", two.url)
        assert (asked.returncode, asked.stdout) == (4, "")
        assert f"queue {name!r} waits for n2" in asked.stderr
        assert "snowmelt forget n2 --yes" in asked.stderr
        assert snowmelt("forget", "n2", "--yes", "--url", two.url).stdout == "n2 is free\n"


@pytest.mark.parametrize("command", [("status",), ("ping",), ("forget", "n1")])
def test_nobody_there_ends_with_4_and_a_sentence(command: tuple[str, ...]) -> None:
    at = f"127.0.0.1:{free_port()}"
    ended = snowmelt(*command, "--url", f"snowmelt://{at}", "--timeout", "0.3")
    assert (ended.returncode, ended.stdout) == (4, "")
    said = f"no node could be reached in the time given: nobody listens at {at}"
    assert ended.stderr == f"snowmelt: {said}\n"


def test_a_wrong_token_ends_with_3(cluster: LocalCluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("guess\n")
    ended = snowmelt("status", "--url", cluster.url, "--token-file", str(token), "--timeout", "0.7")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "the token is missing or wrong" in ended.stderr


def test_a_port_in_use_ends_with_4(cluster: LocalCluster, tmp_path: Path) -> None:
    listen = f"127.0.0.1:{cluster.nodes[0].port}"
    ended = snowmelt("node", "--id", "n9", "--data", str(tmp_path / "n9"), "--listen", listen)
    assert (ended.returncode, ended.stdout) == (4, "")
    assert f"can't listen on {listen}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_folder_that_can_not_be_a_disk_ends_with_7(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    listen = f"127.0.0.1:{free_port()}"
    ended = snowmelt("node", "--id", "n9", "--data", str(tmp_path / "file"), "--listen", listen)
    assert (ended.returncode, ended.stdout) == (7, "")
    assert str(tmp_path / "file") in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_life_that_settles_ends_with_0_and_is_the_same_again() -> None:
    life = ("sim", "--protocol", "membership", "--seed", "7")
    first, second = as_json(*life), as_json(*life)
    assert (first["lives"], first["endings"], first["bad"]) == (1, {"settled": 1}, [])
    assert first["digest"] == second["digest"]


@pytest.mark.parametrize(
    ("family", "bug", "ending", "code"),
    [
        ("echo", "reply-before-persisted", "invariant_broken", 10),
        ("membership", "forgotten-timer", "never_settled", 11),
    ],
)
def test_a_planted_bug_is_found_told_and_ends_with_its_code(
    family: str, bug: str, ending: str, code: int
) -> None:
    lives = ("sim", "--protocol", family, "--seeds", "0:40", "--plant", bug)
    told = as_json(*lives, code=code)
    assert told["endings"][ending] > 0
    assert (told["bad"][0]["ending"], told["bad"][0]["exit_code"]) == (ending, code)
    assert told["bad"][0]["story"]
    shown = snowmelt(*lives[:3], "--seed", str(told["bad"][0]["seed"]), *lives[5:])
    assert shown.returncode == code
    assert told["bad"][0]["sentence"] in shown.stdout
    assert "again: snowmelt sim" in shown.stdout


def test_a_small_world_is_walked_whole_and_says_so() -> None:
    walk = ("sim", "--protocol", "membership", "--explore", "--world", "leave")
    told = as_json(*walk)
    assert (told["complete"], told["bad"]) == (True, [])
    assert told["states"] > told["depth"] > 0
    assert as_json(*walk, "--depth", "2")["complete"] is False
    shown = snowmelt(*walk)
    assert f"{told['states']} states, all there are" in shown.stdout


def test_a_story_that_breaks_something_ends_with_10_and_can_be_played_again(tmp_path: Path) -> None:
    walk = ("sim", "--protocol", "membership", "--explore", "--plant", "forgotten-timer")
    told = as_json(*walk, code=10)
    assert (told["complete"], len(told["bad"])) == (False, 1)
    script = tmp_path / "story"
    script.write_text("\n".join(told["bad"][0]["story"]))
    shown = snowmelt(*walk, "--script", str(script))
    assert shown.returncode == 10
    assert f"broken: {told['bad'][0]['sentence']}" in shown.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--seed", "1"), "--explore is 'with a seed'"),
        (("--world", "five"), "--world is 'five'; allowed: wants, handover"),
        (("--injuries", "flood"), "--injuries is 'flood'"),
        (("--states", "0"), "--states is 0"),
        (("--script", "/nowhere/at/all"), "a file that can be read"),
    ],
)
def test_what_can_not_be_explored_ends_with_2(options: tuple[str, ...], text: str) -> None:
    ended = snowmelt("sim", "--protocol", "baton", "--explore", *options)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert text in " ".join(ended.stderr.split())


OPERATIONS = """\
{"process": "p1", "kind": "put", "values": ["a"], "called": 1, "returned": 2}
{"process": "p1", "kind": "put", "values": ["b"], "called": 3, "returned": 4}
{"process": "p2", "kind": "get", "values": ["%s"], "called": 5, "returned": 6}
"""


@pytest.mark.parametrize(("first", "code"), [("a", 0), ("b", 20)])
def test_check_judges_a_history(tmp_path: Path, first: str, code: int) -> None:
    file = tmp_path / "history"
    file.write_text(OPERATIONS % first)
    told = as_json("check", str(file), "--property", "fifo", code=code)
    assert told["operations"] == 3
    shown = snowmelt("check", str(file), "--property", "fifo")
    assert (shown.returncode, shown.stderr) == (code, "")
    assert shown.stdout


def test_check_needs_a_history_that_reads(tmp_path: Path) -> None:
    file = tmp_path / "history"
    for content in (b"garbage\n", b"{}\n", b"\xff\xfe\n", b'{"a": ' * 50_000):
        file.write_bytes(content)
        ended = snowmelt("check", str(file))
        assert ended.returncode != 0
        assert ended.stdout == ""
        assert "Traceback" not in ended.stderr
        assert ended.stderr.startswith("snowmelt: ")


def test_nodes_are_never_given_one_port_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PORTS", range(20_000, 20_100))
    assert len(set(local.free_ports(40))) == 40
    with pytest.raises(Unavailable, match="of 100 ports tried from 20000 to 20099"):
        local.free_ports(101)


def test_the_help_of_a_command_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = snowmelt("doctor", "--help").stdout.split("Options")[0]
    lines = [line.strip() for line in told.splitlines()]
    assert "certificates and their days, the disk, limits of the system," in " ".join(lines)
    within = [here for here, after in pairwise(lines) if here and after]
    assert min(len(line) for line in within) > 60


def test_every_command_is_found_under_its_own_name_alone() -> None:
    ours = [name for names in COMMANDS.values() for name in names]
    assert sorted(_names(())) == sorted([*ours, *ELSEWHERE])
    assert _names(("--version",)) == []
    for name in (*ours, *ELSEWHERE):
        assert _names((name, "--help")) == [name]


def test_a_command_of_a_package_that_is_not_installed_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ELSEWHERE, "lab", "snowmelt_nowhere.cli.lab")
    with pytest.raises(CallerError, match=r"snowmelt lab comes with .* install snowmelt-nowhere$"):
        program(("lab", "--help"))
    assert "lab" not in _names(())


def _names(words: tuple[str, ...]) -> list[str]:
    app = program(words)
    commands = [
        one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands
    ]
    return commands + [str(one.name) for one in app.registered_groups]


@pytest.mark.parametrize("what", ["node", "folder", "folder on a loop"])
def test_nothing_that_keeps_items_runs_without_its_assertions(tmp_path: Path, what: str) -> None:
    data = str(tmp_path / "n1")
    node = ["-m", "snowmelt", "node", "--id", "n1", "--data", data]
    command = {
        "node": [*node, "--listen", f"127.0.0.1:{free_port()}"],
        "folder": ["-m", "snowmelt", "put", "orders", "one", "--data", data],
        "folder on a loop": ["-c", _ON_A_LOOP, data],
    }[what]
    command = [sys.executable, "-O", *command]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 3
    assert "without -O" in ended.stderr
    assert ended.stdout == ""
    assert not (tmp_path / "n1").exists()


_ON_A_LOOP = """
import asyncio, sys, snowmelt.aio
async def main():
    async with snowmelt.aio.open(sys.argv[1]): pass
try: asyncio.run(main())
except snowmelt.SnowmeltError as error: sys.exit(sys.stderr.write(str(error)) and error.exit_code)
"""
