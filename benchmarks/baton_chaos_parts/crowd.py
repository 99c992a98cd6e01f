"""The workers, as the program that starts, stops and kills them sees them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from benchmarks.baton_chaos_parts.journal import HOLDING, Line, What, last, now
from benchmarks.baton_chaos_parts.plan import Plan

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.05


class Life(msgspec.Struct, frozen=True):
    """One process, from its start to its end."""

    number: int
    life: int
    killed: int = 0
    """When, by the clock of the journals; 0 for one that was not."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"worker-{self.number}-{self.life}"


class Member:
    """A process and its life."""

    def __init__(self, plan: Plan, life: Life) -> None:
        self.life = life
        self._folder = plan.folder
        text = msgspec.json.encode(plan).decode()
        module = "benchmarks.baton_chaos_parts.worker"
        with (plan.folder / f"{life.name}.err").open("wb") as told:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, text, str(life.number), str(life.life)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=told,
                stderr=told,
                start_new_session=True,  # Ctrl-C is for who started it, who ends them all
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def last(self) -> Line | None:
        """What it wrote down last."""
        return last(self._folder / f"{self.life.name}.jsonl", Line)

    @property
    def holds(self) -> bool:
        """Whether it holds a baton, as far as it knows."""
        line = self.last
        return line is not None and line.what in HOLDING

    def has(self, baton: str, fence: int) -> bool:
        """Whether it is this very hold that it has, as far as it knows."""
        line = self.last
        return (
            line is not None and line.what in HOLDING and (line.baton, line.fence) == (baton, fence)
        )

    @property
    def waits(self) -> bool:
        """Whether it waits for one."""
        line = self.last
        return line is not None and line.what is What.ASKED

    def kill(self) -> None:
        """Without a word."""
        self._process.kill()
        self._process.wait(10)
        self.life = msgspec.structs.replace(self.life, killed=now())

    def stop(self) -> None:
        """It does nothing from now on, and does not know it."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def insist(self) -> None:
        """It holds on to what it has."""
        os.kill(self._process.pid, signal.SIGUSR1)

    def resume(self) -> None:
        """It goes on."""
        if self.running:
            os.kill(self._process.pid, signal.SIGCONT)

    def tell(self) -> None:
        """Asks it to end its turn, and then itself."""
        assert self._process.stdin is not None
        if self.running:
            try:
                self._process.stdin.write(b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:  # it has ended just now, and `ended` tells how
                pass

    def ended(self, timeout: float) -> str:
        """Waits for its end; what was wrong with it, if anything was."""
        try:
            code = self._process.wait(max(0.0, timeout))
        except subprocess.TimeoutExpired:
            return f"{self.life.name} did not end in time"
        return f"{self.life.name} ended with {code}: {self._last_words()}" if code else ""

    def close(self) -> None:
        """By force, if it still runs."""
        if self.running:
            self._process.kill()
        self._process.wait(10)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _last_words(self) -> str:
        lines = (self._folder / f"{self.life.name}.err").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


class Crowd:
    """All workers of a run, those that have ended too."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.close()

    @property
    def running(self) -> list[Member]:
        """Those that live."""
        return [member for member in self.members if member.running]

    def start(self, number: int, life: int = 0) -> Member:
        """One more process."""
        member = Member(self._plan, Life(number, life))
        self.members.append(member)
        return member

    def wait_started(self) -> None:
        """Until all that live are at work."""
        end = time.monotonic() + START_SECONDS
        for member in self.members:
            while member.last is None and not member.life.killed:
                if not member.running or time.monotonic() > end:
                    raise RuntimeError(member.ended(0) or f"{member.life.name} did not start")
                time.sleep(LOOK_SECONDS)

    def finish(self, timeout: float) -> list[str]:
        """All end in order; what was wrong with that."""
        leaving = self.running
        for member in leaving:
            member.tell()
        end = time.monotonic() + timeout
        said = [member.ended(end - time.monotonic()) for member in leaving]
        return [words for words in said if words]
