"""The processes of clients, as the program that starts, stops and kills them sees them."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Self

import msgspec

from snowmelt.cli.local import HERE, LocalHost
from snowmelt_world.storms.journals import now
from snowmelt_world.storms.setting import StormSetting

START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.05


class ClientLife(msgspec.Struct, frozen=True):
    """One process, from its start to its end."""

    role: str
    number: int
    life: int = 0
    killed: int = 0
    """When, by the clock of the journals; 0 for one that was not."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.home}-{self.life}"

    @property
    def home(self) -> str:
        """What all lives of one have in common.

        >>> ClientLife("producer", 3, 1).home
        'producer-3'
        """
        return f"{self.role}-{self.number}"


class ClientProcess:
    """A process and its life: its words are beside its journal, and each line is its next step."""

    def __init__(self, setting: StormSetting, life: ClientLife, home: LocalHost = HERE) -> None:
        self.life = life
        self.leaving = False
        """Whether it was asked to leave while the load is on."""
        self._folder: Path = setting.folder
        text = msgspec.json.encode(msgspec.structs.replace(setting, host=home.host)).decode()
        module = "snowmelt_world.storms.process"
        words = text, life.role, str(life.number), str(life.life)
        with (self._folder / f"{life.name}.err").open("wb") as said:
            self._process = subprocess.Popen(
                [*home.prefix, sys.executable, "-m", module, *words],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for who started it, who ends them all
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def started(self) -> bool:
        """Whether it is at work, or was killed before it was."""
        return (self._folder / f"{self.life.name}.up").exists() or self.life.killed > 0

    @property
    def journal(self) -> Path:
        """What it writes down."""
        return self._folder / f"{self.life.name}.jsonl"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self.life = msgspec.structs.replace(self.life, killed=now())

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


class StormCrowd:
    """All processes of clients, those that have ended too; none outlives the `with`."""

    def __init__(self, setting: StormSetting, home: Callable[[str], LocalHost]) -> None:
        self.members: list[ClientProcess] = []
        self.setting = setting
        self._home = home

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()

    @property
    def running(self) -> list[ClientProcess]:
        """Those that live and are at work."""
        return [one for one in self.members if one.running and one.started]

    def of(self, role: str) -> list[ClientProcess]:
        """Those of them that play a role."""
        return [one for one in self.running if one.life.role == role]

    def start(self, role: str, number: int, life: int = 0) -> ClientProcess:
        """One more process."""
        new = ClientLife(role, number, life)
        member = ClientProcess(self.setting, new, self._home(new.home))
        self.members.append(member)
        return member

    def again(self, life: ClientLife) -> ClientProcess:
        """The same client, as a new process."""
        return self.start(life.role, life.number, life.life + 1)

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

    def finish(self, members: Iterable[ClientProcess], lines: int, timeout: float) -> list[str]:
        """These are to end in order; what was wrong with that."""
        leaving = list(members)
        for member in leaving:
            member.tell(lines)
        end = time.monotonic() + timeout
        said = [member.ended(end - time.monotonic()) for member in leaving]
        return [words for words in said if words]
