"""What those may cost who have not shown who they are: connections, guesses, and lines of the log.

It is a machine without a clock and without sockets.

1. So many strangers may be there at a time, beside the connections of those who are known. When one
   more comes, the oldest goes of the host that has the most. Whoever belongs here has greeted long
   before; so those who only stand there can't keep others out.
2. Who shows a wrong secret a few times is answered later and later, by host. It waits as a stranger
   meanwhile. Others from its host are not held up, so nobody is shut out by a neighbour's guesses.
3. Refusals are logged by host: the first one at once, then how many there were, at most every
   `QUIET_SECONDS` for a host, and `LINES_MAX` in that time for all.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from snowmelt.runtime.ledger import Cost, CostLedger, Payer

FREE_GUESSES: Final = 3
"""Wrong secrets of a host that are answered at once: somebody tries the old one after a change."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
FORGOTTEN_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 10.0
LINES_MAX: Final = 20
HOSTS_MAX: Final = 1_000
"""So many are remembered; the oldest is forgotten first."""
Who = TypeVar("Who", bound=Hashable)


def host_of(peername: object) -> str:
    """The host of the other side, as a socket names it: whoever has one address has all near it.

    >>> host_of(("10.0.0.7", 4410)), host_of(("2001:db8::7", 4410, 0, 0)), host_of("")
    ('10.0.0.7', '2001:db8::/64', '127.0.0.1')
    """
    if not isinstance(peername, tuple):
        return "127.0.0.1"  # a Unix socket: of this machine
    host = str(peername[0]).partition("%")[0]
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host)
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.IPv6Network((int(address), 64), strict=False))


class _Guesses:
    """Of one host."""

    __slots__ = ("count", "last", "logged", "unlogged")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0.0
        self.logged = -QUIET_SECONDS
        self.unlogged = 0


class Purse(Generic[Who]):
    """Of one process.

    >>> purse = Purse[str](CostLedger({Cost.STRANGERS: 2}))
    >>> [purse.enter(who, who[0]) for who in ("a1", "b1", "a2", "b2")]
    [None, None, 'a1', 'b1']
    """

    def __init__(self, ledger: CostLedger) -> None:
        self._ledger = ledger
        self._by_host: dict[str, dict[Who, None]] = {}
        self._hosts: dict[Who, str] = {}
        self._guesses: OrderedDict[str, _Guesses] = OrderedDict()
        self._window = -QUIET_SECONDS
        self._lines = 0

    def enter(self, who: Who, host: str) -> Who | None:
        """Somebody connected; who is to go instead, where there are too many (rule 1)."""
        ledger, gone = self._ledger, None
        if ledger.used(Cost.STRANGERS) >= ledger.total(Cost.STRANGERS):
            most = max(self._by_host.values(), key=len)
            gone = next(iter(most))
            self.leave(gone)
            ledger.refuse(Cost.STRANGERS)
        self._by_host.setdefault(host, {})[who] = None
        self._hosts[who] = host
        ledger.charge(Cost.STRANGERS, Payer(host))
        return gone

    def leave(self, who: Who) -> None:
        """It is no stranger any more, or not there; it may not be one."""
        host = self._hosts.pop(who, None)
        if host is None:
            return
        self._ledger.give(Cost.STRANGERS, Payer(host))
        its = self._by_host[host]
        del its[who]
        if not its:
            del self._by_host[host]

    def pause(self, host: str, now: float) -> float:
        """Somebody showed a wrong secret; so long until it is answered (rule 2).

        >>> purse = Purse[str](CostLedger({Cost.STRANGERS: 2}))
        >>> [purse.pause("a", float(now)) for now in range(6)], purse.pause("a", 100.0)
        ([0.0, 0.0, 0.0, 0.1, 0.2, 0.4], 0.0)
        """
        guesses = self._of(host)
        if now - guesses.last > FORGOTTEN_SECONDS:
            guesses.count = 0
        guesses.last = now
        guesses.count += 1
        beyond = guesses.count - FREE_GUESSES - 1
        return 0.0 if beyond < 0 else min(FIRST_PAUSE * 2 ** min(beyond, 10), LONGEST_PAUSE)

    def logs(self, host: str, now: float) -> int:
        """Somebody was refused; how many were since the last line, or 0 for no line (rule 3).

        >>> purse = Purse[str](CostLedger({Cost.STRANGERS: 2}))
        >>> [purse.logs("a", now) for now in (0.0, 1.0, 2.0, 10.0)]
        [1, 0, 0, 3]
        """
        guesses = self._of(host)
        guesses.unlogged += 1
        if now - self._window >= QUIET_SECONDS:
            self._window, self._lines = now, 0
        if now - guesses.logged < QUIET_SECONDS or self._lines >= LINES_MAX:
            return 0
        self._lines += 1
        guesses.logged = now
        count, guesses.unlogged = guesses.unlogged, 0
        return count

    def _of(self, host: str) -> _Guesses:
        guesses = self._guesses.setdefault(host, _Guesses())
        self._guesses.move_to_end(host)
        if len(self._guesses) > HOSTS_MAX:
            self._guesses.popitem(last=False)
        return guesses
