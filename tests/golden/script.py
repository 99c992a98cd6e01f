"""Golden scripts: a scenario in plain words, run without any chance, and its whole trace.

A script is a text. Its first lines, with `#`, say what it shows and why it matters; then come
commands, one a line; a line of dashes; and the trace that must come of them, step by step, with the
reasons that the machines note. Nothing is left to chance: every message takes a millisecond, every
flush fifty microseconds, and what a node draws at random are small numbers in order.

    nodes n1 n2 n3         the first founds, the others join through it
    node n4 via n2         one more, which knows another address
    start n1               a process begins
    run 3s                 time passes
    kill n2 / power n2     a process ends, as by SIGKILL / as by a power cut
    cut n3 / heal          nothing passes to or from n3 / the network is whole again
    pause n3 5s            a process stands still
    jump n3 20s            its clock leaps
    full n1 / room n1      its disk has no room / has room again
    show                   the trace begins here
    call n2 depart         a client calls n2: status, depart, or forget n3

`users.py` has the commands for queues.
"""

import re
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from users import Users, concerns_queues, span_of

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import MILLISECOND, Duration, Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Node
from snowmelt.protocols.membership import Depart, Forget, GetStatus
from snowmelt_world.disk import Ending
from snowmelt_world.families.membership import address, member
from snowmelt_world.families.queue import process
from snowmelt_world.faults import Partition
from snowmelt_world.network import LinkStyle
from snowmelt_world.trace import line
from snowmelt_world.world import World

FAR: Final = Instant(seconds(1e9))
STYLE: Final = LinkStyle(delay_min=Duration(MILLISECOND))
CLIENT: Final = NodeId("c-1")


class Plain(Random):
    """Dice that show small numbers in order, and no jitter."""

    def __init__(self, label: str) -> None:
        super().__init__(0)
        # Births and runs must differ between nodes and starts: n2's second start begins at 220.
        digits = re.findall(r"\d+", label)
        self._next = int("".join(digits[-2:]) or 0) * 10

    def getrandbits(self, k: int, /) -> int:
        """The next number."""
        del k
        self._next += 1
        return self._next

    def randrange(self, *_: Any, **__: Any) -> int:
        """Always the least."""
        return 0

    def expovariate(self, lambd: float = 1.0) -> float:
        """No spread."""
        del lambd
        return 0.0

    def choice(self, seq: Any) -> Any:
        """Always the first."""
        return seq[0]


class Script:
    """Carries out the commands of a script.

    >>> script = Script(["nodes n1", "start n1", "run 1ms"])
    >>> script.trace()[0].split("->")[0].split()
    ['0s', 'n1', 'Started', '()', '()']
    """

    def __init__(self, commands: list[str]) -> None:
        self._world = World(seed=0, style=STYLE, dice=Plain, keep=True)
        self._calls = 0
        self._has_queues = False
        self._shown_from = 0
        users = Users(self._world)
        self._verbs: dict[str, Callable[..., None]] = {
            "nodes": self._nodes,
            "queues": self._queues,
            "node": self._node,
            "start": self._start,
            "run": self._run,
            "show": self._show,
            "kill": self._kill,
            "power": self._power,
            "cut": self._cut,
            "heal": self._world.network.heal,
            "pause": self._pause,
            "jump": self._jump,
            "full": self._full,
            "room": self._room,
            "call": self._call,
            "open": users.open,
            "put": users.put,
            "again": users.again,
            "get": users.get,
            "every": users.every,
            "leave": users.leave,
            "ack": users.ack,
            "back": users.back,
            "look": users.look,
        }
        for command in commands:
            self._do(command)

    def trace(self) -> list[str]:
        steps = self._world.trace.kept()[self._shown_from :]
        if self._has_queues:
            steps = [step for step in steps if concerns_queues(step)]
        return [line(step).rstrip() for step in steps]

    def _do(self, command: str) -> None:
        verb, *words = command.split()
        act = self._verbs.get(verb)
        if act is None:
            raise BadOption("command", command, ", ".join(self._verbs))
        act(*words)

    def _nodes(self, *names: str) -> None:
        first = NodeId(names[0])
        for name in map(NodeId, names):
            self._add(name, () if name == first else (first,))

    def _queues(self, *names: str) -> None:
        self._has_queues = True
        for name in map(NodeId, names):
            build = partial(process, name, NodeId(names[0]))
            self._world.add(name, build, address(name)).wanted = False

    def _node(self, name: str, via: str, contact: str) -> None:
        if via != "via":
            raise BadOption("node", f"{name} {via} {contact}", "NAME via NAME")
        self._add(NodeId(name), (NodeId(contact),))

    def _add(self, name: NodeId, contacts: tuple[NodeId, ...]) -> None:
        def build(chance: Random) -> Node[Any]:
            return member(name, contacts, chance)

        slot = self._world.add(name, build, address(name))
        slot.wanted = False  # a script starts its processes itself

    def _start(self, name: str) -> None:
        self._world.start(NodeId(name))

    def _run(self, span: str) -> None:
        self._world.run(later(self._world.now, span_of(span)))

    def _show(self) -> None:
        self._shown_from = len(self._world.trace.kept())

    def _kill(self, name: str) -> None:
        self._world.stop(NodeId(name), Ending.CRASH)

    def _power(self, name: str) -> None:
        self._world.stop(NodeId(name), Ending.POWER)

    def _cut(self, *names: str) -> None:
        side = tuple(map(NodeId, names))
        self._world.network.begin(Partition(self._world.now, FAR, "script", side))

    def _pause(self, name: str, span: str) -> None:
        self._world.slots[NodeId(name)].paused_until = later(self._world.now, span_of(span))

    def _jump(self, name: str, span: str) -> None:
        self._world.turn_clock(NodeId(name), by=span_of(span))

    def _full(self, name: str) -> None:
        self._world.slots[NodeId(name)].disk.full = True

    def _room(self, name: str) -> None:
        self._world.slots[NodeId(name)].disk.full = False

    def _call(self, name: str, what: str, *words: str) -> None:
        bodies = {"status": GetStatus, "depart": Depart, "forget": Forget}
        if what not in bodies:
            raise BadOption("call", what, ", ".join(bodies))
        self._calls += 1
        body = bodies[what](*map(NodeId, words))
        self._world.request(NodeId(name), OperationId(CLIENT, self._calls), body)


def played(text: str) -> str:
    head = re.split(r"^-+$", text, maxsplit=1, flags=re.MULTILINE)[0].rstrip()
    lines = (one.split("#", 1)[0].strip() for one in head.splitlines())
    script = Script([one for one in lines if one])
    return "\n".join([head, "-" * 60, *script.trace(), ""])
