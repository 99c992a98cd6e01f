"""Processes that are started, killed and asked to end, as the program that does so sees them."""

import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import msgspec
from benchmarks.chaos import injuries
from benchmarks.chaos.journals import now

from snowmelt.cli.local import HERE, Home

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.05


class Member(ABC):
    """A process and its life, which is a struct with a `number`, a `life`, a `name` and `killed`.

    It writes what it says beside its journal, and does the next step at each line that it is told.
    """

    def __init__(self, module: str, plan: Any, life: Any, home: Home = HERE) -> None:
        self.life = life
        self._folder: Path = plan.folder
        text = msgspec.json.encode(plan).decode()
        numbers = str(life.number), str(life.life)
        with (self._folder / f"{life.name}.err").open("wb") as told:
            self._process = subprocess.Popen(
                [*home.prefix, sys.executable, "-m", module, text, *numbers],
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
    def pid(self) -> int:
        """By which the system knows it."""
        return self._process.pid

    @property
    @abstractmethod
    def started(self) -> bool:
        """Whether it is at work, or need not be waited for."""

    @property
    def journal(self) -> Path:
        """What it writes down."""
        return self._folder / f"{self.life.name}.jsonl"

    def kill(self) -> None:
        """Without a word."""
        self._process.kill()
        self._process.wait(10)
        self.life = msgspec.structs.replace(self.life, killed=now())

    def stop(self) -> None:
        """It does nothing from now on, and does not know it."""
        injuries.stop(self._process.pid)

    def resume(self) -> None:
        """It goes on."""
        if self.running:
            injuries.go_on(self._process.pid)

    def tell(self, lines: int = 1) -> None:
        """Asks for the next steps."""
        assert self._process.stdin is not None
        if self.running:
            try:
                self._process.stdin.write(b"\n" * lines)
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


M = TypeVar("M", bound=Member)


class Members(Generic[M]):
    """All processes of a run, those that have ended too; none outlives the `with`."""

    def __init__(self) -> None:
        self.members: list[M] = []

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

    def processes(self) -> list[tuple[str, int]]:
        """Names and numbers of those that run."""
        return [(one.life.name, one.pid) for one in list(self.members) if one.running]

    def wait_started(self) -> None:
        """Until all are at work."""
        end = time.monotonic() + START_SECONDS
        for member in self.members:
            while not member.started:
                if not member.running or time.monotonic() > end:
                    raise RuntimeError(member.ended(0) or f"{member.life.name} did not start")
                time.sleep(LOOK_SECONDS)

    def finish(self, members: Iterable[M], lines: int, timeout: float) -> list[str]:
        """These are to end in order; what was wrong with that."""
        leaving = list(members)
        for member in leaving:
            member.tell(lines)
        end = time.monotonic() + timeout
        said = [member.ended(end - time.monotonic()) for member in leaving]
        return [words for words in said if words]
