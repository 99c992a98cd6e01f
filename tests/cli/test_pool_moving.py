"""`snowmelt pool put` and `get`, and `snowmelt lab try-pool`, as a person types them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import warm
from cli.program import snowmelt
from snowmelt.cli.local import LocalCluster, free_port

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One of this file's own: what is killed here is not forgotten at once."""
    with LocalCluster(1, tmp_path_factory.mktemp("cluster"), 0.5) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def run(cluster: LocalCluster) -> Run:
    return lambda *words, **more: snowmelt("pool", *words, "--url", cluster.url, **more)


@pytest.fixture
def tried(cluster: LocalCluster) -> Run:
    return lambda *words: snowmelt("lab", "try-pool", *words, "--url", cluster.url)


@pytest.fixture
def start(cluster: LocalCluster) -> Iterator[Start]:
    """Starts a command, and leaves it; its standard input is given whole."""
    started: list[subprocess.Popen[bytes]] = []

    def starting(*words: str, given: bytes = b"") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "snowmelt", "pool", *words, "--url", cluster.url]
        pipe = subprocess.PIPE
        one = warm.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        started.append(one)
        assert one.stdin is not None
        one.stdin.write(given)
        one.stdin.close()
        one.stdin = None
        return one

    yield starting
    for one in started:
        one.kill()
        one.communicate()


def test_put_stays_until_all_was_taken(run: Run, start: Start) -> None:
    putting = start("put", "words", "one", "two", "three", "--wait", "30")
    assert run("get", "words", "-n", "2", "--lines", "--wait", "20").stdout == "one\ntwo\n"
    assert putting.poll() is None
    assert run("get", "words", "--wait", "20").stdout == "three"
    told, said = putting.communicate(timeout=100)
    assert (putting.returncode, told, said) == (0, b"3 objects of words taken\n", b"")


def test_lines_and_files(run: Run, start: Start, tmp_path: Path) -> None:
    start(
        "put", "lines", "--lines", "--buffers", "3", given=b"".join(b"%d\n" % n for n in range(50))
    )
    assert (
        run("get", "lines", "--out", str(tmp_path), "--wait", "30").returncode == 0
    )  # it is there
    ended = run("get", "lines", "--all", "--out", str(tmp_path), "--wait", "3")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"{number:012}" for number in range(1, 51)]
    assert sorted(int(file.read_bytes()) for file in files) == list(range(50))
    body = bytes(range(256)) * 5000
    source = tmp_path / "source"
    source.write_bytes(body)
    start("put", "file", "--file", str(source))
    run("get", "file", "--out", str(tmp_path), "--wait", "20")
    assert (tmp_path / "000000000051").read_bytes() == body


def test_what_nobody_takes_is_told(run: Run, tmp_path: Path) -> None:
    ended = run("put", "nobody", "one", "two", "--wait", "0.3")
    assert (ended.returncode, ended.stdout) == (4, "")
    assert (
        "2 objects of nobody were not taken in 0.3 s (0 taken); what was left is lost"
        in ended.stderr
    )
    ended = run("put", "nobody", "one", "two", "--wait", "0.3", "--buffers", "1")
    assert ended.returncode == 4
    assert "--buffers N gives more room" in ended.stderr
    folder = str(tmp_path / "spill")
    ended = run("put", "nobody", "one", "--wait", "0.3", "--spill", folder)
    assert ended.returncode == 4
    assert f"still in {folder}" in ended.stderr


def test_what_a_killed_put_has_spilled_is_put_again(run: Run, start: Start, tmp_path: Path) -> None:
    folder = str(tmp_path / "spill")
    first = start("put", "spilled", "one", "two", "--spill", folder)
    assert run("get", "spilled", "--wait", "20").stdout in ("one", "two")
    first.kill()
    first.wait()
    second = start("put", "spilled", "--lines", "--spill", folder, "--producer", "again")
    assert run("get", "spilled", "--wait", "20").stdout in ("one", "two")
    assert second.wait(20) == 0


def test_nothing_to_get_ends_with_8(run: Run) -> None:
    ended = run("get", "nothing", "--wait", "0.5")
    assert (ended.returncode, ended.stdout) == (8, "")
    assert ended.stderr == "snowmelt: nobody produces in this pool\n"


@pytest.mark.parametrize(
    "words", [("pool", "put", "t", "one"), ("pool", "get", "t"), ("lab", "try-pool")]
)
def test_with_no_cluster_there_it_says_how_to_start_one(words: tuple[str, ...]) -> None:
    nowhere = f"snowmelt://127.0.0.1:{free_port()}"
    begin = time.monotonic()
    ended = snowmelt(*words, "--timeout", "0.5", "--url", nowhere)
    assert time.monotonic() - begin < 10
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "`snowmelt up` starts a cluster on this machine" in ended.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("put", "a/b", "x"), "name is 'a/b'"),
        (("put", "t", "x", "--lines"), "with --file or standard input only"),
        (("put", "t", "x", "--file", "y"), "a file or bodies, not both"),
        (("put", "t", "--file", "/no/such"), "a readable file"),
        (("put", "t", "x", "--buffers", "0"), "buffers is 0"),
        (("put", "t", "x", "--wait", "-1"), "--wait is -1.0"),
        (("get", "t", "-n", "0"), "--count is 0"),
        (("get", "t", "--out", "/dev/null"), "--out is '/dev/null'; allowed: a folder"),
    ],
)
def test_bad_options_end_with_2(run: Run, words: tuple[str, ...], sentence: str) -> None:
    ended = run(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--producers", "0"), "--producers is 0"),
        (("--size", "1GB"), "--size is '1GB'"),
        (("--seconds", "nan"), "--seconds is nan"),
    ],
)
def test_bad_options_of_a_trial_end_with_2(
    tried: Run, words: tuple[str, ...], sentence: str
) -> None:
    ended = tried(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr


def test_a_trial_is_measured(tried: Run) -> None:
    ended = tried("trial", "--seconds", "1.5", "--size", "10KB", "--rate", "30", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert told["got"] == told["put"] > 50
    assert told["lost"] == 0
    assert 1 <= told["probes_per_object"] <= 3
    ended = tried("trial", "--seconds", "0.5", "--producers", "1", "--consumers", "1")
    assert "probes an object" in ended.stdout


def test_a_pool_in_use_is_not_tried_in(run: Run, tried: Run, start: Start) -> None:
    start("put", "busy", "one")
    assert run("get", "busy", "--wait", "20").stdout == "one"
    start("put", "busy", "two")
    while not json.loads(run("stats", "busy", "--json").stdout)["producers"]:
        time.sleep(0.1)
    ended = tried("busy")
    assert ended.returncode == 2
    assert "a pool without members" in ended.stderr
