"""The producers and consumers, as the program that starts and kills them sees them."""

from enum import Enum

import msgspec
from benchmarks.chaos import members
from benchmarks.pool_chaos_parts.plan import Plan


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


class Member(members.Member):
    """A process and its life."""

    life: Life

    def __init__(self, plan: Plan, life: Life) -> None:
        super().__init__(f"benchmarks.pool_chaos_parts.{life.role.value}", plan, life)

    @property
    def started(self) -> bool:
        """Whether it is at work."""
        return self.journal.exists() and self.journal.stat().st_size > 0


class Crowd(members.Members[Member]):
    """All processes of a run, those that have ended too."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

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
