"""What an introducer knows of one pool: who is in it, and what each was told.

All of it is soft: it comes from the processes' own words, and is forgotten without them.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.dealing import Degrees, Hand, balance, deal, share
from snowmelt.protocols.pool.introductions import (
    Acquaintance,
    Introduce,
    Introduced,
    PeerReport,
    PoolStatus,
)

EVERY: Final = milliseconds(500)
"""How often each process should speak."""
MISSES: Final = 6
PATIENCE: Final = Duration(MISSES * EVERY)
"""After so long a silence a process is forgotten."""
GRACE: Final = milliseconds(500)
"""The same once its connection here has ended."""


class _ListedProcess(msgspec.Struct):
    until: Instant
    """When it is forgotten, unless it speaks."""
    stock: int = 0
    rate: float = 0.0
    report: PeerReport = PeerReport()
    taking: float = 0.0
    consumes: bool = False
    fan_out: int = 0
    hand: Hand = ()
    """What it was dealt; empty while it may know all."""
    seen: int = -1
    """The turn in which its hand was last found to need no change; -1 when it was changed."""

    @property
    def dealt_to(self) -> bool:
        """Whether it may know only some of the producers."""
        return self.consumes and self.fan_out > 0


class Roster:
    """One pool, from the first word that this node has heard of it.

    It is settled once that is a whole patience ago: whoever lives has spoken by then.
    """

    def __init__(self, name: str, version: int, now: Instant, maker: str = "") -> None:
        self.name = name
        self.maker = maker
        """Who pays for the one that spoke first."""
        self._version = version
        self._settled = False
        self._settles_at = later(now, PATIENCE)
        self._processes: dict[NodeId, _ListedProcess] = {}
        self._told: dict[NodeId, Acquaintance] = {}
        self._producers: tuple[Acquaintance, ...] = ()  # `_told` in order, unless it is stale
        self._stale = False
        self._degrees = Degrees()
        self._dealt_to = 0
        self._know_all = 0
        self._turn = 0
        self._taken = 0.0  # by all of them, objects a second

    def __len__(self) -> int:
        return len(self._processes)

    def __contains__(self, client: NodeId) -> bool:
        return client in self._processes

    def heard(self, client: NodeId, word: Introduce, now: Instant) -> Introduced:
        """A process spoke. O(fan-out), and O(producers) when anything has changed."""
        if not self._settled and now >= self._settles_at:
            self._settled = True
            self._change()  # those who are still not heard of are out now
            self._turn += 1
        process = self._processes.get(client)
        if process is None:
            process = _ListedProcess(now, consumes=word.consumes, fan_out=word.fan_out)
            self._processes[client] = process
            self._count(process, 1)
        elif (process.consumes, process.fan_out) != (word.consumes, word.fan_out):
            self._set_consumer(process, word.consumes, word.fan_out)
            self._change()  # this process would be told otherwise, and one answer may be lost
        process.until = later(now, PATIENCE)
        process.stock, process.rate, process.report = word.stock, word.rate, word.report
        self._takes(process, word.taking)
        self._set_producer(client, word)
        same = self._redeal(client, process, word.known) if process.dealt_to else True
        taken = self._taken if self._settled else 0.0
        if same and word.version == self._version:
            return Introduced(self._version, self._settled, EVERY, taken=taken)
        return Introduced(
            self._version, self._settled, EVERY, self._listed(), self._known_to(process), taken
        )

    def leave(self, client: NodeId) -> None:
        """A process is no longer in the pool; nothing happens when it was not."""
        process = self._processes.pop(client, None)
        if process is None:
            return
        self._set_consumer(process, consumes=False, fan_out=0)
        self._takes(process, 0.0)
        self._remove_producer(client)

    def _takes(self, process: _ListedProcess, taking: float) -> None:
        # Sums of floats drift; with nobody left it is none, and a little more or less is no matter.
        self._taken = max(0.0, self._taken + taking - process.taking) if self._processes else 0.0
        process.taking = taking

    def gone(self, client: NodeId, now: Instant) -> None:
        """The connection of a process has ended; it may speak again on another."""
        process = self._processes.get(client)
        if process is not None:
            process.until = min(process.until, later(now, GRACE))

    def forget_silent(self, now: Instant) -> None:
        for client in [one for one, process in self._processes.items() if process.until <= now]:
            self.leave(client)

    def wait_longer(self, by: Duration) -> None:
        """Gives everybody more time: it was this node that did not listen."""
        self._settles_at = later(self._settles_at, by)
        for process in self._processes.values():
            process.until = later(process.until, by)

    def status(self) -> PoolStatus:
        """The pool as a person may see it."""
        processes = self._processes
        made = [processes[one.id] for one in self._listed()]
        consumers = sorted(one for one, process in processes.items() if process.consumes)
        return PoolStatus(
            self.name,
            tuple(
                msgspec.structs.replace(one, rate=process.rate)  # `_differs` keeps older ones
                for one, process in zip(self._listed(), made, strict=True)
            ),
            tuple(process.stock for process in made),
            tuple(consumers),
            tuple(process.report for process in made),
            tuple(processes[one].report for one in consumers),
        )

    def check(self) -> None:
        assert self._told.keys() <= self._processes.keys(), "a producer that nobody heard of"
        assert len(self._degrees) == len(self._told)
        assert all(one in self._degrees for one in self._told)
        consumers = [one for one in self._processes.values() if one.consumes]
        assert self._dealt_to == sum(one.dealt_to for one in consumers)
        assert self._know_all == len(consumers) - self._dealt_to
        self._degrees.check(one.hand for one in self._processes.values())
        assert self._stale or self._producers == tuple(self._sorted())

    # --- producers --------------------------------------------------------------------------------

    def _set_producer(self, client: NodeId, word: Introduce) -> None:
        if not word.produces:
            self._remove_producer(client)
            return
        name = word.name or client
        new = Acquaintance(client, name, word.address, word.rate, word.leaving)
        old = self._told.get(client)
        if old is not None and not _differs(old, new):
            return
        if old is None:
            self._degrees.add(client)
            self._turn += 1
        self._told[client] = new
        self._change()

    def _remove_producer(self, client: NodeId) -> None:
        if self._told.pop(client, None) is not None:
            self._degrees.remove(client)
            self._turn += 1
            self._change()

    def _change(self) -> None:
        """What somebody would be told is no longer what it was."""
        self._version += 1
        self._stale = True

    def _listed(self) -> tuple[Acquaintance, ...]:
        if self._stale:
            self._producers, self._stale = tuple(self._sorted()), False
        return self._producers

    def _sorted(self) -> list[Acquaintance]:
        return [self._told[one] for one in sorted(self._told)]

    # --- consumers --------------------------------------------------------------------------------

    def _set_consumer(self, process: _ListedProcess, consumes: bool, fan_out: int) -> None:
        self._count(process, -1)
        process.consumes, process.fan_out = consumes, fan_out
        self._count(process, 1)
        if not process.dealt_to:
            self._degrees.know(process.hand, by=-1)
            process.hand = ()

    def _count(self, process: _ListedProcess, by: int) -> None:
        """One consumer more, or by -1 one fewer: all hands may need another size."""
        self._turn += 1
        if process.dealt_to:
            self._dealt_to += by
        elif process.consumes:
            self._know_all += by

    def _known_to(self, process: _ListedProcess) -> Hand:
        if process.dealt_to or not process.consumes:
            return process.hand
        return tuple(one.id for one in self._listed())

    def _redeal(self, client: NodeId, process: _ListedProcess, said: Hand) -> bool:
        """Looks at a consumer's hand again; whether it holds just what it should."""
        if process.seen == self._turn and said == process.hand:
            return True
        believed = tuple(sorted(dict.fromkeys(said)))
        held = tuple(one for one in believed if one in self._degrees)
        self._degrees.know(process.hand, by=-1)
        hand = self._hand(client, process.fan_out, held, absent=len(believed) - len(held))
        self._degrees.know(hand)
        process.seen = self._turn if hand == said else -1  # one that is new is looked at once more
        if hand != process.hand:
            process.hand = hand
            self._turn += 1
        return hand == (believed if self._settled else held)

    def _hand(self, client: NodeId, fan_out: int, held: Hand, absent: int) -> Hand:
        """A hand for a consumer whom nobody counts just now.

        Before the roster is settled nothing is taken from a hand, and a place in it is kept for
        each producer of whom nothing was heard yet.
        """
        degrees = self._degrees
        if not self._settled:
            return tuple(sorted(deal(client, held, fan_out - absent, len(held), degrees)))
        size = fan_out  # enough, when somebody else knows all
        if not self._know_all:
            size = share(fan_out, len(degrees), self._dealt_to)
        hand = deal(client, held, size, size, degrees)
        return tuple(sorted(balance(client, hand, degrees)))


def _differs(old: Acquaintance, new: Acquaintance) -> bool:
    """Whether others should be told. Small changes of a rate would only make talk.

    >>> from snowmelt.core.names import Address
    >>> old = Acquaintance(NodeId("c-1"), "fast", Address("::1", 1), rate=10.0)
    >>> [_differs(old, msgspec.structs.replace(old, rate=rate)) for rate in (8.0, 12.0, 12.5)]
    [False, False, True]
    """
    if abs(new.rate - old.rate) > old.rate / 5:
        return True
    return (old.name, old.address, old.leaving) != (new.name, new.address, new.leaving)
