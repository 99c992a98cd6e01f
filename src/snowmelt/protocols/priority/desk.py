"""What the parts of one machine share: the clock, who is here, what goes out, and the disk.

The parts speak by messages, also within one node; what is sent to oneself is worked off before
anything is written, so that what it changes is in the same write. What is said to another node in
one turn goes together, and is heard in one turn there: so it is in one write as well.

The disk takes one write at a time. What changes meanwhile gathers on the shelves, and goes in one
piece when it is done: one flush serves all who came (`writing.py`). Who must wait for it leaves a
*task*, and is told of it when all that had changed before is flushed.
"""

from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Load, Send
from snowmelt.core.record import Found
from snowmelt.protocols import desk
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.membership import View
from snowmelt.protocols.overlay.ring import Spread
from snowmelt.protocols.priority.calls import Via
from snowmelt.protocols.priority.messages import together
from snowmelt.protocols.priority.placing import spread_of
from snowmelt.protocols.priority.writing import Part, Task, Writing

AGAIN_FIRST: Final = milliseconds(200)
AGAIN_LONGEST: Final = milliseconds(2_000)
AT_ONCE: Final = Duration(0)


class Desk(desk.Desk):
    """The clock, the view, the outbox and the disk."""

    def __init__(self, me: NodeId, chance: Random, *, alone: bool = False) -> None:
        super().__init__(me, chance)
        self.alone = alone
        """Whether nobody else can hold a lease that was given before this process began."""
        self.view: View | None = None
        self.era = 0
        """Which view this is: 0 while there is none."""
        self.spread: Spread | None = None
        """Where things lie in this view: one for all queues, whose names are in the keys."""
        self.via = Via(me, 0)
        self.in_hand_bytes = 0
        """Of puts that this node has in hand as their door, of all queues (`hand.py`)."""
        self._letters: dict[NodeId, list[Any]] = {}
        """What is said to others in this turn."""
        self._number = 0
        self.disk = Writing()
        self._loads: dict[int, Task] = {}

    # --- the clock and who is here ----------------------------------------------------------------

    def instant_of(self, wall: int) -> Instant:
        """When the wall clock will show this."""
        return Instant(max(0, wall - self._wall_minus_now))

    def set_view(self, view: View) -> None:
        member = view.member(self.me)
        assert member is not None, "a node is told only of views that it is in"
        self.view, self.era = view, _era(view)
        self.via = Via(self.me, member.life)
        self.spread = spread_of(self.members)

    def is_in(self, view: View) -> bool:
        return self.era == _era(view)

    @property
    def epoch(self) -> int:
        return self.era >> 32

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Who is here, this node among them."""
        return tuple(one.id for one in self.view.members) if self.view is not None else ()

    # --- out --------------------------------------------------------------------------------------

    def send(self, target: NodeId, message: Any) -> None:
        if target == self.me:
            self.inside.append(message)
        else:
            self._letters.setdefault(target, []).append(message)

    def redirect(self, operation: OperationId, node: NodeId) -> None:
        """Answers that another node has it in hand."""
        member = self.view.member(node) if self.view is not None else None
        if member is not None:
            self.reply(operation, Elsewhere(node, member.address))

    def taken(self) -> list[Effect[Any]]:
        """What goes out, in order; the desk is empty afterwards."""
        effects, self._effects = self._effects, []
        if self._letters:
            letters, self._letters = self._letters, {}
            for target, messages in letters.items():
                effects.extend([Send(target, one) for one in together(messages)])
        return effects

    def wake(self, at: Instant, queue: str) -> None:
        """Asks for a tick of this queue, or under no name of all else, then or before."""
        self.alarms.wake(queue, at)

    # --- the disk ---------------------------------------------------------------------------------

    def await_flush(self, part: Part, queue: str, number: int) -> None:
        """A task: to be told when all that has changed until now is flushed."""
        self.disk.tasks.append(Task(part, queue, number, self.era))

    def take_back(self, keys: tuple[bytes, ...]) -> None:
        """These found no room, and are not to be written any more."""
        self.disk.take_back(keys, self.now)

    def load(self, part: Part, queue: str, number: int, keys: tuple[bytes, ...]) -> None:
        self._number += 1
        self._loads[self._number] = Task(part, queue, number, self.era)
        self._effects.append(Load(self._number, keys))

    def loaded(self, ticket: int, found: tuple[Found, ...]) -> tuple[Task, tuple[Found, ...]]:
        return self._loads.pop(ticket), found


def _era(view: View) -> int:
    return (view.epoch << 32) + view.mark


class Patience(msgspec.Struct, gc=False):
    """When what was sent is sent again: ever less often, until it is answered."""

    at: Instant
    wait: Duration

    @classmethod
    def new(cls, now: Instant, took: Duration = AT_ONCE) -> "Patience":
        """Of what was sent just now; an answer took so long of late.

        >>> [Patience.new(Instant(0), milliseconds(took)).wait // 10**6 for took in (9, 300, 3_000)]
        [200, 600, 2000]
        """
        wait = Duration(min(max(2 * took, AGAIN_FIRST), AGAIN_LONGEST))
        return cls(later(now, wait), wait)

    def over(self, now: Instant) -> bool:
        """Whether it is time; then the next wait begins."""
        if now < self.at:
            return False
        self.wait = Duration(min(2 * self.wait, AGAIN_LONGEST))
        self.at = later(now, self.wait)
        return True
