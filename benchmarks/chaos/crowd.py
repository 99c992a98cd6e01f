"""The processes of clients, as the program that starts them sees them."""

import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from benchmarks.chaos.plan import Plan

from snowmelt.cli.local import HERE, Home

ROOT = Path(__file__).resolve().parents[2]


def shares(clients: int, processes: int) -> list[int]:
    """At which clients each process begins, and where the last ends."""
    return [clients * one // processes for one in range(processes + 1)]


class Crowd:
    """All clients of a run, shared out among some processes."""

    def __init__(self, plan: Plan, processes: int, homes: Sequence[Home] = ()) -> None:
        self._plan = plan
        self._homes = homes or [HERE] * processes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._shares = [range(*pair) for pair in pairwise(shares(plan.clients, processes))]

    def __enter__(self) -> Self:
        for share, home in zip(self._shares, self._homes, strict=True):
            self._start(share, home)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait(10)
            assert process.stdin is not None
            process.stdin.close()

    @property
    def pids(self) -> list[int]:
        """Those of its processes."""
        return [process.pid for process in self._processes]

    def finish(self, timeout: float) -> list[str]:
        """The load is over: all finish what they have begun. What went wrong with that."""
        for process in self._processes:
            if process.poll() is None:
                assert process.stdin is not None
                process.stdin.write(b"\n")
                process.stdin.flush()
        end = time.monotonic() + timeout
        wrong = []
        for process in self._processes:
            try:
                code = process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                wrong.append(f"clients (process {process.pid}) did not end in {timeout:g} s")
                continue
            if code:
                wrong.append(f"clients (process {process.pid}) ended with {code}")
        return wrong

    def _start(self, share: range, home: Home) -> None:
        plan = msgspec.json.encode(self._plan).decode()
        command = [*home.prefix, sys.executable, "-m", "benchmarks.chaos.client", plan]
        with (self._plan.folder / f"client-{share.start}.err").open("wb") as told:
            self._processes.append(
                subprocess.Popen(
                    [*command, str(share.start), str(share.stop)],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=told,
                    stderr=told,
                    start_new_session=True,  # Ctrl-C is for who started it, who ends them all
                )
            )
