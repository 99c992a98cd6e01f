"""What others cost this process: one ledger, with a total of each cost and a share for each payer.

It is a machine without a clock and without sockets. Whoever has those asks it.

1. A cost is charged to a *payer*: an owner, and a session of it. The owner is the user who proved a
   secret. Where one token is all there is, everybody is that user, and the owner is the host that
   the connection comes from. The session is the name of the client's process. So a program that
   goes wild can't take all from others under its token, nor from others on its host; and who makes
   up many names still has the share of one host.
2. Each cost has a total. An owner may hold `SHARE` times what it leaves to other owners. Of what
   its owner may still hold, a session leaves as much as it holds itself. So one that is alone has
   two thirds, and there is always some room for the next.
3. `take` gives within the share or not at all. `charge` is for what has come already: it counts, so
   that nothing more is given meanwhile.
4. What was taken is given back by who took it, when it ends: a connection, or a frame.
"""

from enum import Enum
from typing import Final, NamedTuple, TypeVar

from snowmelt.core.names import NodeId
from snowmelt.core.shares import SHARE, has_share
from snowmelt.core.users import User
from snowmelt.runtime.statistics import CostSummary

K = TypeVar("K")


class Cost(Enum):
    """What is counted."""

    CONNECTIONS = "connections"
    """Open ones whose other side has shown who it is."""
    STRANGERS = "strangers"
    """Those whose other side has not."""
    ARRIVING = "arriving_bytes"
    """Large frames that have begun to come."""
    CALLS = "call_bytes"
    """Calls that were heard and not answered, beside what each connection may have in any case."""
    ANSWERS = "answer_bytes"
    """What was sent and is not read, to those who are held up by it."""


class Payer(NamedTuple):
    """Who pays (rule 1)."""

    owner: str
    session: str = ""


NOBODY: Final = Payer("")
"""Pays for what this process and other nodes of its cluster cost."""


def payer_of(user: User, host: str, name: NodeId) -> Payer:
    """Who pays for a connection of this user, from this host, under this name.

    >>> from snowmelt.core.users import ANYBODY
    >>> payer_of(ANYBODY, "10.0.0.7", NodeId("c-1"))
    Payer(owner='host 10.0.0.7', session='c-1')
    >>> payer_of(User("shop", ()), "10.0.0.7", NodeId("c-1"))
    Payer(owner='shop', session='c-1')
    """
    return Payer(user.name or f"host {host}", name)


class _Account:
    """Of one cost."""

    __slots__ = ("by_owner", "by_payer", "refused", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.refused = 0
        self.by_owner: dict[str, int] = {}
        self.by_payer: dict[Payer, int] = {}


class CostLedger:
    """Of one process.

    >>> ledger = CostLedger({Cost.ARRIVING: 100})
    >>> ann, bob = Payer("host a", "c-ann"), Payer("host b", "c-bob")
    >>> ledger.take(Cost.ARRIVING, ann, 60), ledger.take(Cost.ARRIVING, ann, 10)
    (True, False)
    >>> ledger.take(Cost.ARRIVING, bob, 20), ledger.summary()["arriving_bytes"]
    (True, CostSummary(used=80, total=100, refused=1))
    >>> ledger.give(Cost.ARRIVING, ann, 60); ledger.used(Cost.ARRIVING)
    20
    """

    def __init__(self, totals: dict[Cost, int]) -> None:
        self._accounts = {cost: _Account(total) for cost, total in totals.items()}

    def fits(self, cost: Cost, payer: Payer, amount: int) -> bool:
        """Whether the payer's share has room for so much (rule 2)."""
        account = self._accounts[cost]
        free = account.total - account.used
        of_owner = account.by_owner.get(payer.owner, 0)
        if not has_share(of_owner, amount, free):
            return False
        left = SHARE * (free - amount + 1) - of_owner - amount
        return account.by_payer.get(payer, 0) + amount <= max(left, 1)

    def take(self, cost: Cost, payer: Payer, amount: int = 1) -> bool:
        """Whether it has so much more; else it has as much as before (rule 3)."""
        if not self.fits(cost, payer, amount):
            self.refuse(cost)
            return False
        self.charge(cost, payer, amount)
        return True

    def charge(self, cost: Cost, payer: Payer, amount: int = 1) -> None:
        """It has so much more in any case (rule 3)."""
        account = self._accounts[cost]
        account.used += amount
        account.by_owner[payer.owner] = account.by_owner.get(payer.owner, 0) + amount
        account.by_payer[payer] = account.by_payer.get(payer, 0) + amount

    def give(self, cost: Cost, payer: Payer, amount: int = 1) -> None:
        """It has so much less (rule 4)."""
        account = self._accounts[cost]
        account.used -= amount
        _less(account.by_owner, payer.owner, amount)
        _less(account.by_payer, payer, amount)

    def refuse(self, cost: Cost) -> None:
        """Somebody had no room."""
        self._accounts[cost].refused += 1

    def used(self, cost: Cost) -> int:
        """By all together."""
        return self._accounts[cost].used

    def total(self, cost: Cost) -> int:
        """For all together."""
        return self._accounts[cost].total

    def of_owner(self, cost: Cost, owner: str) -> int:
        """By all sessions of an owner."""
        return self._accounts[cost].by_owner.get(owner, 0)

    def of_payer(self, cost: Cost, payer: Payer) -> int:
        """By one session."""
        return self._accounts[cost].by_payer.get(payer, 0)

    def owners(self, cost: Cost) -> dict[str, int]:
        """What each holds."""
        return dict(self._accounts[cost].by_owner)

    def summary(self) -> dict[str, CostSummary]:
        """All costs by name, as they are shown."""
        return {
            cost.value: CostSummary(one.used, one.total, one.refused)
            for cost, one in self._accounts.items()
        }

    def check(self) -> None:
        """All sums fit, and nobody who holds nothing is named."""
        for account in self._accounts.values():
            assert account.used == sum(account.by_owner.values()) == sum(account.by_payer.values())
            assert all(one > 0 for one in account.by_payer.values())
            owners = dict.fromkeys(account.by_owner, 0)
            for payer, held in account.by_payer.items():
                owners[payer.owner] += held
            assert owners == account.by_owner


def _less(held: dict[K, int], who: K, amount: int) -> None:
    left = held[who] - amount
    assert left >= 0, f"{who} gives back more than it has"
    if left:
        held[who] = left
    else:
        del held[who]
