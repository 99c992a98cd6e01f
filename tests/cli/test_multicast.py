"""`snowmelt multicast` against a real cluster."""

import subprocess
import sys
from pathlib import Path

import warm
from cli.program import snowmelt
from snowmelt.cli.local import LocalCluster


def listening(cluster: LocalCluster, *arguments: str) -> subprocess.Popen[bytes]:
    """Somebody who listens by now."""
    words = ["multicast", "subscribe", *arguments, "--url", cluster.url]
    process = warm.Popen(
        [sys.executable, "-m", "snowmelt", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"listening to")
    return process


def test_all_who_listen_get_what_is_published_from_then_on(cluster: LocalCluster) -> None:
    ears = [listening(cluster, "news", "-n", "3", "--timeout", "30") for _ in range(2)]
    said = snowmelt("multicast", "publish", "news", "one", "two", "three", "--url", cluster.url)
    assert said.stdout == "3 messages published to news\n"
    for ear in ears:
        out, error = ear.communicate(timeout=40)
        assert (ear.returncode, out, error) == (0, b"one\ntwo\nthree\n", b"")


def test_lines_of_a_file_are_published_and_positions_told(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    ear = listening(cluster, "lines", "--positions", "-n", "2", "--timeout", "30")
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    with lines.open() as stream:
        words = ["multicast", "publish", "lines", "--url", cluster.url]
        command = [sys.executable, "-m", "snowmelt", *words]
        subprocess.run(command, stdin=stream, check=True, timeout=60, capture_output=True)
    out, _ = ear.communicate(timeout=40)
    assert ear.returncode == 0
    first, second = [line.split("\t") for line in out.decode().splitlines()]
    assert (first[1], second[1]) == ("a", "b")
    assert first[0].split(".")[0] == second[0].split(".")[0]
    assert int(second[0].split(".")[1]) == int(first[0].split(".")[1]) + 1


def test_what_is_no_good_is_told(cluster: LocalCluster) -> None:
    for arguments, code, why in (
        (("subscribe", "news", "-n", "-1"), 2, "--count is -1"),
        (("subscribe", "news", "--timeout", "0"), 2, "--timeout is 0"),
        (("subscribe", "silence", "--timeout", "0.3"), 8, "nothing was published to silence"),
        (("publish", "a/b", "x"), 2, "topic is 'a/b'"),
    ):
        ended = snowmelt("multicast", *arguments, "--url", cluster.url)
        assert ended.returncode == code
        assert why in ended.stderr
