"""The clock that leases are counted by: it goes on while the machine is suspended."""

import shutil
import subprocess
import sys
import time

import pytest

SUSPENDED = 100_000
"""Seconds by which the clock that counts suspension is ahead of the one that does not."""
APART = ["unshare", "--user", "--map-root-user", "--time", "--boottime", str(SUSPENDED)]


def apart() -> bool:
    """Whether a process can be begun here in whose world the machine was suspended."""
    if not hasattr(time, "CLOCK_BOOTTIME") or shutil.which("unshare") is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not apart(), reason="no world of its own clocks to be had")
def test_a_lease_that_ended_while_the_machine_was_suspended_is_over() -> None:
    script = (
        "import time; from snowmelt.runtime.clock import steady_now;"
        "print(steady_now() // 10**9 - int(time.monotonic()))"
    )
    told = subprocess.run(
        [*APART, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(told.stdout) >= SUSPENDED - 1
