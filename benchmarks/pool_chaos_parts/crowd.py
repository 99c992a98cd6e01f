"""The producers and consumers, as the program that starts and kills them sees them."""

import subprocess
import sys
import time
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from benchmarks.pool_chaos_parts.plan import Plan

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.05


class Role(Enum):
    """What a process is for."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Life(msgspec.Struct, frozen=True):
    """One process, from its start to its end."""

    role: Role
    number: int
    life: int
    killed: int = 0
    """When, by the clock of the journals; 0 for one that was not."""

    @property
    def dead(self) -> bool:
        """Whether it was killed."""
        return self.killed > 0

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.role.value}-{self.number}-{self.life}"


class Member:
    """A process and its life."""

    def __init__(self, plan: Plan, life: Life) -> None:
        self.life = life
        self._folder = plan.folder
        module = f"benchmarks.pool_chaos_parts.{life.role.value}"
        text = msgspec.json.encode(plan).decode()
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
    def started(self) -> bool:
        """Whether it is at work."""
        journal = self._folder / f"{self.life.name}.jsonl"
        return journal.exists() and journal.stat().st_size > 0

    def kill(self) -> None:
        """Without a word."""
        self._process.kill()
        self._process.wait(10)
        self.life = msgspec.structs.replace(self.life, killed=time.monotonic_ns())

    def tell(self, lines: int) -> None:
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


class Crowd:
    """All processes of a run, those that have ended too."""

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

    def start(self, role: Role, number: int, life: int = 0) -> Member:
        """One more process."""
        member = Member(self._plan, Life(role, number, life))
        self.members.append(member)
        return member

    def again(self, member: Member) -> Member:
        """The same producer or consumer, as a new process."""
        life = member.life
        return self.start(life.role, life.number, life.life + 1)

    def running(self, role: Role) -> list[Member]:
        """Those that are at work."""
        return [
            member
            for member in self.members
            if member.life.role is role and member.running and member.started
        ]

    def wait_started(self) -> None:
        """Until all are at work."""
        end = time.monotonic() + START_SECONDS
        for member in self.members:
            while not member.started:
                if not member.running or time.monotonic() > end:
                    raise RuntimeError(member.ended(0) or f"{member.life.name} did not start")
                time.sleep(LOOK_SECONDS)

    def finish(self, members: Iterable[Member], lines: int, timeout: float) -> list[str]:
        """These are to end in order; what was wrong with that."""
        leaving = list(members)
        for member in leaving:
            member.tell(lines)
        end = time.monotonic() + timeout
        said = [member.ended(end - time.monotonic()) for member in leaving]
        return [words for words in said if words]
