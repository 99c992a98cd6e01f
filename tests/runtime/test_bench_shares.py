"""Processes with a share of a core each, as the benchmark of scale gives them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snowmelt_world.shares import PERIOD_US, Shares, Unbounded

BURN = """
import sys, time
sys.stdin.readline()
begin = time.monotonic()
while time.monotonic() < begin + 1.0:
    pass
print(time.process_time())
"""


@pytest.mark.parametrize("unified", [False, True])
def test_a_share_is_written_as_the_system_wants_it(tmp_path: Path, unified: bool) -> None:
    if not unified:
        (tmp_path / "cpu").mkdir()
    shares = Shares("bench", tmp_path)
    shares.bound(77, 0.05)
    group = (tmp_path if unified else tmp_path / "cpu") / "bench" / "77"
    assert (group / "cgroup.procs").read_text() == "77"
    shares.bound(78, 0.05)
    shares.bound(77, 0.05)
    weight = group.parent / ("cpu.weight" if unified else "cpu.shares")
    assert weight.read_text() == ("200" if unified else "2048"), "as much as two programs"
    if unified:
        assert (group / "cpu.max").read_text() == f"2000 {PERIOD_US}"
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
        assert (tmp_path / "bench" / "cgroup.subtree_control").read_text() == "+cpu"
    else:
        assert (group / "cpu.cfs_quota_us").read_text() == "2000"
        assert (group / "cpu.cfs_period_us").read_text() == str(PERIOD_US)


def test_where_it_can_not_be_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unbounded, match="can't be bounded here"):
        Shares("bench", tmp_path / "nowhere")


def test_a_process_has_its_share_and_no_more() -> None:
    try:
        shares = Shares(f"snowmelt-test-{os.getpid()}")
    except Unbounded as error:
        pytest.skip(str(error))
    try:
        with subprocess.Popen(
            [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as burning:
            shares.bound(burning.pid, 0.1)
            told, _ = burning.communicate("go\n", timeout=100)
        assert float(told) < 0.5, "a tenth of a second, and what it took to start"
    finally:
        deadline = time.monotonic() + 5
        while shares.folder.exists() and time.monotonic() < deadline:
            shares.close()
    assert not shares.folder.exists()
