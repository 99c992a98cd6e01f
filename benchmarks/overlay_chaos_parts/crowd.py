"""The processes of clients, as the program that starts and kills them sees them."""

import msgspec
from benchmarks.chaos import members
from benchmarks.overlay_chaos_parts.plan import Plan


class Life(msgspec.Struct, frozen=True):
    """One process, from its start to its end."""

    number: int
    life: int
    killed: int = 0
    """When, by the clock of the journals; 0 for one that was not."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.home}-{self.life}"

    @property
    def home(self) -> str:
        """What all its lives have in common."""
        return f"clients-{self.number}"


class Member(members.Member):
    """A process and its life."""

    life: Life

    def __init__(self, plan: Plan, life: Life) -> None:
        super().__init__("benchmarks.overlay_chaos_parts.client", plan, life)

    @property
    def started(self) -> bool:
        """Whether it is at work, or was killed before it was."""
        at_work = self.journal.exists() and self.journal.stat().st_size > 0
        return at_work or self.life.killed > 0


class Crowd(members.Members[Member]):
    """All processes of a run, those that have ended too."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def start(self, number: int, life: int = 0) -> Member:
        """One more process."""
        member = Member(self._plan, Life(number, life))
        self.members.append(member)
        return member

    def again(self, member: Member) -> Member:
        """The same clients' successors, as a new process."""
        return self.start(member.life.number, member.life.life + 1)

    @property
    def running(self) -> list[Member]:
        """Those that are at work."""
        return [member for member in self.members if member.running and member.started]
