"""Some nodes with their batons on a bench: words are delivered by hand, and time is turned by hand.

No chance but seeds, no network: what is sent lies in `words` until `run`, which carries everything,
or `run(but=...)`, which leaves some kinds of words lying.
"""

from collections import deque
from random import Random
from typing import Any

from snowmelt.core.instant import SECOND, Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    CancelTimer,
    Expired,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import Erase, Record, Write
from snowmelt.protocols import baton
from snowmelt.protocols.baton import BatonSettings
from snowmelt.protocols.baton.calls import Acquire, GetBaton, Release, Renew, SaveValue
from snowmelt.protocols.calling import Answer, Call, Gone
from snowmelt.protocols.host import Host
from snowmelt.protocols.membership import CutOff, Member, View

SETTINGS = BatonSettings()
LEASE = SETTINGS.lease
NAME = "index"


class Bench:
    """Nodes `n1` (the root), `n2`... in one view, and clients that are names only."""

    def __init__(self, count: int, checked_every: int = 1) -> None:
        """A machine is checked after so many of the events: it looks at all its names then."""
        self._checked_every = checked_every
        self._events = 0
        self.now = Instant(0)
        self.hosts: dict[NodeId, Host] = {}
        self.words: deque[tuple[NodeId, NodeId, Any]] = deque()
        self.timers: dict[tuple[NodeId, Any], Instant] = {}
        self.answers: dict[OperationId, list[Any]] = {}
        self.facts: list[tuple[NodeId, Any]] = []
        self.starts: dict[NodeId, int] = {}
        self.births: dict[NodeId, int] = {}
        self.wall = 1_800_000_000 * SECOND
        """What wall clocks show when it begins."""
        self.disk: dict[NodeId, dict[bytes, bytes]] = {}
        self.hurt: set[tuple[NodeId, bytes]] = set()
        """Records that read badly from the next start on."""
        self.full: set[NodeId] = set()
        """Whose disk takes nothing."""
        self.slow: set[NodeId] = set()
        """Whose disk is at it until `flush`."""
        self.unflushed: list[tuple[NodeId, Persist]] = []
        self.epoch = 0
        self.calls = 0
        for number in range(1, count + 1):
            self.start(f"n{number}")
        self.view(*self.hosts)
        self.pass_time(seconds(3))

    # --- what is done to nodes --------------------------------------------------------------------

    def start(self, name: str, *, empty: bool = False) -> None:
        """A process begins, for the first time or again, on what it has on its disk."""
        node = NodeId(name)
        if empty:
            self.disk[node], self.starts[node] = {}, 0
            self.births[node] = self.births.get(node, 1) + 10_000
        self.starts[node] = self.starts.get(node, 0) + 1
        self.timers = {key: at for key, at in self.timers.items() if key[0] != node}
        chance = Random(f"{name}/{self.starts[node]}")
        self.hosts[node] = Host(node, baton.families(node, SETTINGS, chance))
        kept = self.disk.get(node, {})
        hurt = tuple(key for key in kept if (node, key) in self.hurt)
        whole = tuple(Record(key, kept[key]) for key in kept if key not in hurt)
        self.give(node, Started(whole, hurt, self.wall + self.now))

    def view(self, *names: str, unheard: str = "") -> None:
        """These are the members now, and all of them are told but one."""
        self.epoch += 1
        members = tuple(self._member(NodeId(name)) for name in sorted(names))
        told = View(1, self.epoch, NodeId("n1"), members)
        for member in members:
            if member.id != unheard:
                self.give(member.id, Announced(told))

    def _member(self, node: NodeId) -> Member:
        return Member(node, Address(node, 1), self.births.get(node, 1), self.starts[node])

    def kill(self, name: str) -> None:
        """A process is gone; nobody is told."""
        del self.hosts[NodeId(name)]

    def cut_off(self, name: str, *, leaving: bool = False) -> None:
        self.give(NodeId(name), Announced(CutOff(self.epoch, leaving)))

    def give(self, node: NodeId, event: Any) -> None:
        host = self.hosts.get(node)
        if host is None:
            return
        for effect in host.handle(event, self.now):
            self._carry_out(node, effect)
        self._events += 1
        if self._events % self._checked_every == 0:
            host.check()

    def _carry_out(self, node: NodeId, effect: Any) -> None:
        match effect:
            case Send(target, Answer(number, body)):
                self.answers.setdefault(OperationId(target, number), []).append(body)
            case Send(target, message):
                self.words.append((node, target, message))
            case SetTimer(timer, at):
                self.timers[node, timer] = at
            case CancelTimer(timer):
                self.timers.pop((node, timer), None)
            case Persist(ticket) if node in self.full:
                self.give(node, PersistFailed(ticket, "no space left on the disk"))
            case Persist() if node in self.slow:
                self.unflushed.append((node, effect))
            case Persist():
                self._persist(node, effect)
            case Announce(fact):
                self.facts.append((node, fact))
            case Reply():
                raise AssertionError("nobody in the process calls")
            case _:
                pass

    def _persist(self, node: NodeId, effect: Persist) -> None:
        for change in effect.changes:
            self._written(node, change)
        self.give(node, Persisted(effect.ticket))

    def flush(self) -> None:
        """What disks were at is done, in order."""
        self.slow.clear()
        unflushed, self.unflushed = self.unflushed, []
        for node, effect in unflushed:
            self._persist(node, effect)

    def _written(self, node: NodeId, change: Write | Erase) -> None:
        kept = self.disk.setdefault(node, {})
        if isinstance(change, Write):
            kept[change.key] = change.value
            self.hurt.discard((node, change.key))
        else:
            for key in [key for key in kept if change.start <= key < change.stop]:
                del kept[key]

    # --- what nodes are inside --------------------------------------------------------------------

    def machine(self, name: str) -> baton.BatonNode:
        return self.hosts[NodeId(name)]._machines[1]

    def baton(self, name: str) -> Any:
        return self.machine(name)._names.use(NAME, self.now)

    def kept(self, name: str) -> tuple[int, int]:
        """How many batons and how many arrows a node has."""
        machine = self.machine(name)
        return len(machine._names), len(machine._ways._ways)

    # --- time and words ---------------------------------------------------------------------------

    def run(self, but: tuple[type, ...] = ()) -> None:
        """Delivers all words, but those of these kinds."""
        for _ in range(10_000):
            at = next((i for i, one in enumerate(self.words) if not isinstance(one[2], but)), None)
            if at is None:
                return
            self.run_one(at)
        raise AssertionError("they talk without end")

    def run_one(self, at: int = 0) -> None:
        """Delivers one word."""
        source, target, message = self.words[at]
        del self.words[at]
        self.give(target, Received(source, message))

    def pass_time(self, span: Duration, but: tuple[type, ...] = ()) -> None:
        """Lets timers fire, and words arrive."""
        end = later(self.now, span)
        self.run(but)
        while self.timers:
            (node, timer), at = min(self.timers.items(), key=lambda one: one[1])
            if at > end:
                break
            del self.timers[node, timer]
            self.now = max(self.now, at)
            self.give(node, Expired(timer))
            self.run(but)
        self.now = end

    def pass_time_until(self, kind: type) -> None:
        """Lets time pass until such a word is sent, which is left lying."""
        for _ in range(600):
            self.pass_time(SETTINGS.beat, but=(kind,))
            if any(isinstance(message, kind) for _, _, message in self.words):
                return
        raise AssertionError(f"no {kind.__name__} was ever sent")

    def run_and_tell(self) -> list[type]:
        """Delivers all words; returns of which kinds they were."""
        kinds = []
        while self.words:
            kinds.append(type(self.words[0][2]))
            self.run_one()
        return kinds

    # --- clients ----------------------------------------------------------------------------------

    def call(self, client: str, node: str, body: Any) -> OperationId:
        self.calls += 1
        operation = OperationId(NodeId(client), self.calls)
        self.give(NodeId(node), Received(operation.client, Call(operation.number, body)))
        return operation

    def want(self, client: str, node: str, ticket: int, name: str = NAME) -> OperationId:
        return self.call(client, node, Acquire(name, ticket, seconds(2)))

    def answer(self, operation: OperationId) -> Any:
        """The one answer to a call; None when there is none yet."""
        told = self.answers.get(operation, [])
        assert len(told) <= 1, told
        return told[0] if told else None

    def release(self, client: str, ticket: int, granted: Any, value: bytes | None = None) -> Any:
        where = granted.where
        return self.call(client, where.node, Release(NAME, ticket, granted.fence, where, value))

    def keep(self, client: str, ticket: int, granted: Any, node: str = "") -> Any:
        where = granted.where
        call = Renew(NAME, ticket, granted.fence, where)
        return self.answer(self.call(client, node or where.node, call))

    def save(self, client: str, ticket: int, granted: Any, value: bytes) -> OperationId:
        where = granted.where
        return self.call(client, where.node, SaveValue(NAME, ticket, granted.fence, where, value))

    def gone(self, client: str, node: str) -> None:
        self.give(NodeId(node), Announced(Gone(NodeId(client))))

    def states(self) -> dict[str, str]:
        """Where the token is, as the nodes say."""
        told = {}
        for node in self.hosts:
            status = self.answer(self.call("looker", node, GetBaton(NAME)))
            if status.state != "elsewhere":
                told[str(node)] = status.state
        return told

    def held(self, client: str, node: str, ticket: int) -> Any:
        """Wants the baton and gets it at once."""
        asked = self.want(client, node, ticket)
        self.run()
        granted = self.answer(asked)
        assert granted is not None, f"{client} at {node} was not granted"
        assert hasattr(granted, "fence"), granted
        return granted
