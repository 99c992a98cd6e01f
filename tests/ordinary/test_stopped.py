"""Processes that are stopped for longer than their lease, as a debugger's pause or a laptop's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ordinary.conftest import TESTS
from ordinary.kinds import LEASE, Kind, opened, rest
from snowmelt.cli.local import LocalNode

HOLDING = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from snowmelt.core.errors import SnowmeltError
from ordinary.kinds import of, opened
with opened(of(sys.argv[3]), *sys.argv[1:3]) as queue:
    if sys.argv[4] == "get":
        held = queue.get_one(timeout=20)
    else:
        loop = queue.consume(timeout=20, prefetch=2)
        held = next(loop)
    print(bytes(held.body).decode(), flush=True)
    sys.stdin.readline()
    try:
        held.ack()
        if sys.argv[4] != "get":
            loop.close()
        print("acknowledged", flush=True)
    except SnowmeltError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("how", ["get", "loop"])
def test_who_is_stopped_for_longer_than_its_lease_is_told(
    node: LocalNode, name: str, kind: type[Kind], how: str, tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(HOLDING)
    with opened(kind, node.url, name) as queue:
        for number in range(3):
            queue.put(b"%d" % number)
        command = [sys.executable, str(file), node.url, name, kind.__name__, how]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
            try:
                assert other.stdin is not None
                assert other.stdout is not None
                held = other.stdout.readline().strip().encode()
                os.kill(other.pid, signal.SIGSTOP)
                end = time.monotonic() + 10 * LEASE
                came: list[bytes] = []
                while len(came) < 3 and time.monotonic() < end:
                    came += rest_of(queue)
                assert sorted(came) == [b"0", b"1", b"2"]
                os.kill(other.pid, signal.SIGCONT)
                other.stdin.write("\n")
                other.stdin.flush()
                told = other.stdout.readline().strip()
                if how == "get":
                    assert told == "LeaseLost", f"of {held!r}"
            finally:
                os.kill(other.pid, signal.SIGCONT)
                other.kill()
        assert rest(queue) == []


def rest_of(queue: object) -> list[bytes]:
    """What there is now, done."""
    found = []
    for item in queue.consume(timeout=0.3):  # type: ignore[attr-defined]
        found.append(bytes(item.body))
        item.ack()
    return found
