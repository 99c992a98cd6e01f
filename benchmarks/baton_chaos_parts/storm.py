"""What is done to the processes: when who is killed or stopped, and when it goes on.

Strikes of all kinds are dealt like cards, so each kind comes equally often. Whom a strike hits is
found when it comes: who holds by its own journal, or where a baton is held by the nodes' word.
"""

import heapq
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Final, NamedTuple, Self

from benchmarks.baton_chaos_parts.crowd import Crowd, Member
from benchmarks.baton_chaos_parts.events import Deed, Event, Events, Part
from benchmarks.baton_chaos_parts.plan import Plan
from benchmarks.chaos.journals import now
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.links import Links

from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.connection.clients import Clients
from snowmelt.client.connection.url import read
from snowmelt.core.errors import SnowmeltError
from snowmelt.protocols.baton.calls import BatonStatus, GetBaton

PAUSE: Final = (1.0, 3.0)
"""Seconds from one strike to the next."""
HOLDER_STOPPED: Final = 6.5
"""Longer than a lease."""
WAITER_STOPPED: Final = 4.0
NODE_STOPPED: Final = (4.0, 9.0)
"""Longer than the members' patience; and longer than that and a lease, so that what the node had
is made anew before it goes on."""
SLOW_BITS: Final = (64e3, 1e6)
"""A second: less than what nodes tell each other all the time, or some more."""
SLOW_SECONDS: Final = (4.0, 9.0)
WORKER_DOWN: Final = 1.0
NODE_DOWN: Final = 2.0
INSISTING: Final = 0.7
"""How likely a holder holds on whose node is struck: most holds would be over before it matters."""
OUT_MOST: Final = 3
"""So many nodes may be out at a time."""
ASK_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 0.05

Strike = Callable[[], bool]
"""Whether there was somebody to be struck."""


class Struck(NamedTuple):
    """Somebody, and why it is this one."""

    who: str
    part: Part
    baton: str = ""
    fence: int = 0


class Storm:
    """What is done, and what went wrong beside."""

    def __init__(
        self,
        crowd: Crowd,
        cluster: LocalCluster,
        plan: Plan,
        kinds: frozenset[Kind],
        wires: Links | None = None,
        *,
        spared: bool = True,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._crowd = crowd
        self._nodes = {node.name: node for node in cluster.nodes}
        self._batons = plan.batons
        self._events = Events(plan.folder)
        self._chance = Random(plan.seed)
        self._kinds = kinds
        self._wires = wires
        self._spared = spared
        """Whether the first node, which decides on its disk, is never struck; else who leads is."""
        self._slow: set[str] = set()
        """Whose links are slow: workers' homes and nodes."""
        self._deck: list[Strike] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopped: dict[str, Callable[[], None]] = {}
        """Who is stopped, and how it goes on."""
        self._down: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for resume in list(self._stopped.values()):  # one that is stopped can't be asked to end
            resume()

    def blow(self, seconds: float) -> None:
        """Strikes for so long, and then lets everybody come back."""
        self._events.note(Deed.STORM)
        end = time.monotonic() + seconds
        following = time.monotonic() + self._chance.uniform(*PAUSE)
        while time.monotonic() < end or self._agenda:
            self._look()
            self._catch_up()
            if following <= time.monotonic() < end:
                self._strike()
                following = time.monotonic() + self._chance.uniform(*PAUSE)
            time.sleep(LOOK_SECONDS)

    def calm(self, seconds: float) -> None:
        """Only looks on; all is up, and stays so."""
        self._events.note(Deed.CALM)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            time.sleep(LOOK_SECONDS)

    def over(self) -> None:
        """Nothing that comes later is judged by the clock."""
        self._events.note(Deed.OVER)

    # --- strikes ----------------------------------------------------------------------------------

    def _strike(self) -> None:
        """The next card that finds somebody."""
        for _ in range(2 * len(self._cards)):
            if not self._deck:
                self._deck = list(self._cards)
                self._chance.shuffle(self._deck)
            if self._deck.pop()():
                return

    @property
    def _cards(self) -> list[Strike]:
        cards: dict[Kind, tuple[Strike, ...]] = {
            Kind.KILL: (
                lambda: self._kill_worker(Part.HOLDER),
                lambda: self._kill_worker(Part.WAITER),
                lambda: self._kill_node(self._any_node()),
                lambda: self._kill_node(self._insisting(self._holders_node())),
            ),
            Kind.STOP: (
                lambda: self._stop_worker(Part.HOLDER, HOLDER_STOPPED),
                lambda: self._stop_worker(Part.WAITER, WAITER_STOPPED),
                lambda: self._stop_node(self._any_node()),
                lambda: self._stop_node(self._insisting(self._holders_node())),
            ),
            Kind.SLOW: (
                lambda: self._slow_down(self._any_worker()),
                lambda: self._slow_down(self._any_node()),
                lambda: self._slow_down(self._insisting(self._holders_node())),
            ),
        }
        if not self._spared:
            cards[Kind.KILL] += (lambda: self._kill_node(self._leader()),)
            cards[Kind.STOP] += (lambda: self._stop_node(self._leader()),)
        return [card for kind, some in cards.items() if kind in self._kinds for card in some]

    def _kill_worker(self, part: Part) -> bool:
        member = self._worker(part)
        if member is None:
            return False
        self._note(Deed.KILLED, Struck(member.life.name, part))
        member.kill()
        self._later(WORKER_DOWN, lambda: self._start_worker(member))
        return True

    def _stop_worker(self, part: Part, seconds: float) -> bool:
        member = self._worker(part)
        if member is None:
            return False
        name = member.life.name
        self._note(Deed.STOPPED, Struck(name, part))
        member.stop()
        self._stopped[name] = member.resume
        self._later(seconds, lambda: self._resume(name))
        return True

    def _kill_node(self, struck: Struck | None) -> bool:
        if struck is None:
            return False
        node = self._nodes[struck.who]
        self._note(Deed.KILLED, struck)
        self._down.append(node.name)
        node.kill()
        self._later(NODE_DOWN, lambda: self._start_node(node))
        return True

    def _stop_node(self, struck: Struck | None) -> bool:
        if struck is None:
            return False
        pid = self._nodes[struck.who].pid
        self._note(Deed.STOPPED, struck)
        os.kill(pid, signal.SIGSTOP)
        self._stopped[struck.who] = lambda: os.kill(pid, signal.SIGCONT)
        self._later(self._chance.choice(NODE_STOPPED), lambda: self._resume(struck.who))
        return True

    def _slow_down(self, struck: Struck | None) -> bool:
        if struck is None or struck.who in self._slow:
            return False
        assert self._wires is not None
        self._note(Deed.SLOWED, struck)
        self._wires.slow(struck.who, int(self._chance.uniform(*SLOW_BITS)))
        self._slow.add(struck.who)
        self._later(self._chance.uniform(*SLOW_SECONDS), lambda: self._quicken(struck.who))
        return True

    # --- and what follows -------------------------------------------------------------------------

    def _start_worker(self, member: Member) -> None:
        again = self._crowd.start(member.life.number, member.life.life + 1)
        self._events.note(Deed.STARTED, again.life.name)

    def _start_node(self, node: LocalNode) -> None:
        node.start()
        self._down.remove(node.name)
        self._events.note(Deed.STARTED, node.name)

    def _resume(self, name: str) -> None:
        self._stopped.pop(name)()
        self._events.note(Deed.CONTINUED, name)

    def _quicken(self, name: str) -> None:
        assert self._wires is not None
        self._slow.remove(name)
        self._wires.quicken(name)
        self._events.note(Deed.QUICKENED, name)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time.monotonic() + seconds, next(self._order), act))

    def _catch_up(self) -> None:
        while self._agenda and self._agenda[0][0] <= time.monotonic():
            heapq.heappop(self._agenda)[2]()

    def _note(self, deed: Deed, struck: Struck) -> None:
        """Written down before it is done: nothing that follows from it is earlier."""
        self._events.write(Event(now(), deed, *struck))
        self.done[f"{struck.part.value} {deed.value}"] += 1

    # --- whom it hits -----------------------------------------------------------------------------

    def _worker(self, part: Part) -> Member | None:
        """One that holds, or waits, and is not stopped."""
        found = [
            member
            for member in self._crowd.running
            if member.life.name not in self._stopped
            and (member.holds if part is Part.HOLDER else member.waits)
        ]
        return self._chance.choice(found) if found else None

    def _any_worker(self) -> Struck | None:
        running = self._crowd.running
        return Struck(self._chance.choice(running).life.home, Part.WORKER) if running else None

    @property
    def _standing(self) -> list[LocalNode]:
        """Nodes that may be struck: never the first, if it is the coordinator."""
        nodes = list(self._nodes.values())
        out = [node.name in self._stopped or not node.running for node in nodes]
        if sum(out) >= OUT_MOST:
            return []
        some = [node for node, gone in zip(nodes, out, strict=True) if not gone]
        return [node for node in some if node is not nodes[0]] if self._spared else some

    def _any_node(self) -> Struck | None:
        standing = self._standing
        return Struck(self._chance.choice(standing).name, Part.NODE) if standing else None

    def _leader(self) -> Struck | None:
        """Who leads, by the word of one that may be struck."""
        standing = self._standing
        self._chance.shuffle(standing)
        for node in standing:
            status = node.status(ASK_SECONDS)
            if status is not None and status.view is not None:
                name = status.view.coordinator
                there = any(one.name == name for one in standing)
                return Struck(name, Part.LEADER) if there else None
        return None

    def _holders_node(self) -> Struck | None:
        """One at which somebody holds a baton this very moment."""
        standing = self._standing
        self._chance.shuffle(standing)
        for node in standing:
            for baton in self._batons:
                if fence := held_at(node, baton):
                    return Struck(node.name, Part.HOLDERS_NODE, baton, fence)
        return None

    def _look(self) -> None:
        """Who ends without having been asked is a broken promise, told once."""
        for member in self._crowd.members:
            if not member.running and not member.life.killed:
                words = member.ended(0) or f"{member.life.name} ended by itself"
                if words not in self.wrong:
                    self.wrong.append(words)
        for node in self._nodes.values():
            if not node.running and node.name not in self._down:
                self.wrong.append(f"{node.name} ended by itself: {node.last_words()}")
                self._down.append(node.name)

    def _insisting(self, struck: Struck | None) -> Struck | None:
        """Lets the holder hold on."""
        if struck is not None and self._chance.random() < INSISTING:
            for member in self._crowd.running:
                if member.has(struck.baton, struck.fence):
                    member.insist()
                    self.done["holders that held on meanwhile"] += 1
        return struck


def held_at(node: LocalNode, baton: str) -> int:
    """The fence of the hold that is at this node now; 0 when there is none, or no answer."""
    clients = Clients(read(node.url))
    try:
        status: BatonStatus = clients.call(GetBaton(baton), ASK_SECONDS)
    except SnowmeltError:
        return 0
    finally:
        clients.close()
    return status.fence if status.state == "held" and status.node == node.name else 0
