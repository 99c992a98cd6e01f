"""`snowmelt worker`: handlers of a module, from a shell."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import snowmelt
import warm
from cli.program import snowmelt as run
from snowmelt.cli.local import LocalCluster

SHOP = """
import asyncio, pathlib, time
from snowmelt import Retry
RETRY = {ValueError: None}
def ship(item):
    if item.body == b"bad":
        raise ValueError("no such address")
    if item.body == b"slow":
        print("begun", flush=True)
        while not pathlib.Path("go on").exists():
            time.sleep(0.01)
    print(f"{item.queue} {item.value}\\n", end="", flush=True)  # one write: threads share it
async def send(item):
    await asyncio.sleep(0)
    print(f"{item.queue} {item.value}\\n", end="", flush=True)
class Clerk:
    def __call__(self, item):
        ship(item)
clerk = Clerk()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@contextmanager
def begun(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own."""
    environment = {one: value for one, value in os.environ.items() if "SNOWMELT" not in one}
    with (
        (folder / "log").open("w") as log,
        warm.Popen(
            [sys.executable, "-m", "snowmelt", "worker", *words],
            cwd=folder,
            env=environment,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as started,
    ):
        try:
            yield started
        finally:
            started.kill()


def line(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def until(so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not so():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.mark.parametrize("function", ["ship", "send", "clerk"])
def test_each_item_of_several_queues_is_handled_and_acknowledged(
    cluster: LocalCluster, shop: Path, function: str
) -> None:
    names = f"{function}-a", f"{function}-b"
    with snowmelt.connect(cluster.url) as connected:
        for name in names:
            connected.fifo(name).put_many([b"1", b"2"])
        with begun(
            shop, f"shop:{function}", "--queue", f"{names[0]}=3", "--queue", names[1], "--threads",
            "4", "--codec", "text", "--idle", "0.5", "--url", cluster.url,
        ) as started:  # fmt: skip
            said = sorted(line(started) for _ in range(4))
            assert started.wait(20) == 0
        assert said == sorted(f"{name} {one}" for name in names for one in "12")
        assert [connected.fifo(name).stats().ready for name in names] == [0, 0]
    log = (shop / "log").read_text()
    assert f"INFO a worker began: queue {names[0]}, at once 3" in log
    assert f"INFO a worker ended: queue {names[1]}, done 2, failed 0" in log


def test_sigterm_finishes_what_is_in_hand(cluster: LocalCluster, shop: Path) -> None:
    with snowmelt.connect(cluster.url) as connected:
        orders = connected.fifo("in-hand")
        orders.put_many([b"slow", b"next"])
        with begun(shop, "shop:ship", "--queue", "in-hand", "--url", cluster.url) as started:
            assert line(started) == "begun"
            started.send_signal(signal.SIGTERM)
            stops = "a worker stops: queue in-hand, in hand 1"
            until(lambda: stops in (shop / "log").read_text(), "it was not heard")
            (shop / "go on").touch()
            assert line(started) == "in-hand b'slow'"
            assert started.wait(20) == 0
        assert orders.get(timeout=5).body == b"next"


def test_a_failure_is_a_line_of_the_log_and_retry_is_of_the_module(
    cluster: LocalCluster, shop: Path
) -> None:
    with snowmelt.connect(cluster.url) as connected:
        orders = connected.fifo("failing")
        orders.put(b"bad")
        words = ["shop:ship", "--queue", "failing", "--retry", "shop:RETRY", "--idle", "0.3"]
        with begun(shop, *words, "--log-format", "json", "--url", cluster.url) as started:
            assert started.wait(20) == 0
        assert orders.stats().dead == 1
    log = (shop / "log").read_text()
    assert (
        '"event": "a handler failed", "queue": "failing", "position": 0, "dead_after": "1 failure"'
        in log
    )


def test_a_changed_file_begins_it_anew(cluster: LocalCluster, shop: Path) -> None:
    with snowmelt.connect(cluster.url) as connected:
        orders = connected.fifo("reloaded")
        orders.put(b"1")
        words = ["shop:ship", "--queue", "reloaded", "--reload", "--url", cluster.url]
        with begun(shop, *words) as started:
            assert line(started) == "reloaded b'1'"
            (shop / "shop.py").write_text("def ship(item:\n")  # no Python
            until(lambda: "begins anew when a file changes" in (shop / "log").read_text(), "ended")
            (shop / "shop.py").write_text("def ship(item):\n    print('new', flush=True)\n")
            orders.put(b"2")
            assert line(started) == "new"
            started.send_signal(signal.SIGTERM)
            assert started.wait(20) == 0
        until(lambda: orders.stats().leased == 0, "the child has ended, and has given back")
        assert orders.stats().ready == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no_shop:ship", "--queue", "q"], 2, "there is no 'no_shop' in "),
        (["json:lods", "--queue", "q"], 2, "allowed: a name in json, which has "),
        (["json", "--queue", "q"], 2, "MODULE:NAME"),
        (["json:loads", "--queue", "q=0"], 2, "NAME=WEIGHT with a weight of 1 to 1000"),
        (["json:loads", "--queue", "never-made"], 9, "snowmelt create never-made"),
        (["json:loads", "--queue", "my orders"], 2, "queue is 'my orders'; allowed: 1 to 100 of"),
        (["json:loads", "--queue", "q", "--log", "loud"], 2, "--log is 'loud'"),
        (["json:loads", "--queue", "q", "--log-format", "xml"], 2, "--log-format is 'xml'"),
        (["json:loads", "--queue", "q", "--retry", "json:loads"], 2, "retry is <function loads"),
        (["asyncio:sleep", "--queue", "q", "--processes", "2"], 2, "--processes is 2"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_out(
    cluster: LocalCluster, words: list[str], code: int, said: str
) -> None:
    with snowmelt.connect(cluster.url) as connected:
        connected.fifo("q").create()
    ended = run("worker", *words, "--url", cluster.url)
    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr


def test_an_error_within_the_module_shows_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import nothing_of_this_name\n")
    with begun(tmp_path, "shop:ship", "--queue", "q") as started:
        assert started.wait(20) == 1
    assert 'shop.py", line 1' in (tmp_path / "log").read_text()
