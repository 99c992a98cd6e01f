"""A program that stands still for longer than its lease, in the middle of a turn."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import snowmelt
from ordinary.turns import Turns, turn
from snowmelt.cli.local import LocalNode

TESTS = Path(__file__).parents[1]
STANDING = """
import sys, time
import snowmelt
from ordinary.turns import Turns
url, name, path = sys.argv[1:]
turns = Turns(path)
with snowmelt.connect(url) as cluster:
    with cluster.baton(name) as held, turns.within(held):
        print("held", flush=True)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
"""


@pytest.mark.parametrize("seconds", [0.5, 6.5])
def test_who_stands_still_holds_it_no_longer_than_its_lease_and_knows(
    node: LocalNode, name: str, seconds: float, tmp_path: Path
) -> None:
    file = tmp_path / "turns"
    text = f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n{STANDING}"
    one = subprocess.Popen(
        [sys.executable, "-c", text, node.url, name, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert one.stdout is not None
    assert one.stdout.readline() == "held\n"
    one.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    with snowmelt.connect(node.url) as cluster:
        if seconds > 5:
            turn(cluster.baton(name), Turns(file))
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        one.send_signal(signal.SIGCONT)
        errors = one.communicate(timeout=20)[1]
        turn(cluster.baton(name), Turns(file))
    assert ("BatonLost" in errors) == (seconds > 5)
    assert (one.returncode != 0) == (seconds > 5)
    Turns(file).check()
