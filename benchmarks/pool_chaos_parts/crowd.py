"""The producers and consumers, as the program that starts and kills them sees them."""

from enum import Enum

import msgspec
from benchmarks.chaos import members
from benchmarks.chaos.links import Links
from benchmarks.pool_chaos_parts.plan import Plan

from snowmelt.cli.local import HERE, Home


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
        return f"{self.home}-{self.life}"

    @property
    def home(self) -> str:
        """What all its lives have in common."""
        return f"{self.role.value}-{self.number}"


class Member(members.Member):
    """A process and its life."""

    life: Life

    def __init__(self, plan: Plan, life: Life, home: Home) -> None:
        plan = msgspec.structs.replace(plan, host=home.host)
        super().__init__(f"benchmarks.pool_chaos_parts.{life.role.value}", plan, life, home)

    @property
    def started(self) -> bool:
        """Whether it is at work."""
        return self.journal.exists() and self.journal.stat().st_size > 0


class Crowd(members.Members[Member]):
    """All processes of a run, those that have ended too."""

    def __init__(self, plan: Plan, wires: Links | None = None) -> None:
        super().__init__()
        self._plan = plan
        self._wires = wires

    def start(self, role: Role, number: int, life: int = 0) -> Member:
        """One more process."""
        new = Life(role, number, life)
        member = Member(self._plan, new, self._wires.home(new.home) if self._wires else HERE)
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
