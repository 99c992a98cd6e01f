"""A process leaves its pool in order (rule 12).

What it holds goes back, what it asked for is given up, and others are invited, in turn, to take
over what it keeps, until nothing is left or the time is over. From its beginning on it takes
nothing more, and once it has said that it has left it gives nothing either: what comes for it is
given back, and a request that comes by is passed on.
"""

from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Reply, Send
from snowmelt.protocols.pool.adopting import Adopter
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.calls import Stopped
from snowmelt.protocols.pool.consumer import Consumer
from snowmelt.protocols.pool.holding import HeldLoans
from snowmelt.protocols.pool.introduction import Introduction
from snowmelt.protocols.pool.messages import Invite
from snowmelt.protocols.pool.producer import Producer

INVITE_EVERY: Final = milliseconds(200)
ON_THEIR_WAY: Final = milliseconds(100)
"""For so long after its time it waits for what was put into places that were told of ahead."""
LEAVE: Final = ("leave", None)


class Departure:
    def __init__(
        self,
        me: NodeId,
        alarms: Alarms,
        introduction: Introduction,
        producer: Producer,
        consumer: Consumer,
        holding: HeldLoans,
        adopter: Adopter,
    ) -> None:
        self.over = False
        """Whether it has left."""
        self._me = me
        self._alarms = alarms
        self._introduction = introduction
        self._producer = producer
        self._consumer = consumer
        self._holding = holding
        self._adopter = adopter
        self._deadline: Instant | None = None
        self._asked: list[OperationId] = []
        self._invitations = 0

    @property
    def begun(self) -> bool:
        return self._deadline is not None

    def stop(self, operation: OperationId, patience: Duration, now: Instant) -> Effects:
        """It is asked to leave; whoever asks again hears what became of it, too."""
        if self.over:
            return [Reply(operation, Stopped(self._producer.left))]
        self._asked.append(operation)
        if self.begun:
            return []
        self._deadline = later(now, patience)
        self._introduction.soon(now)
        return [
            *self._consumer.leave(),
            *self._holding.leave(),
            *self._adopter.leave(),
            *self._producer.leave(),
            *self._holding.say(),
        ]

    def further(self, now: Instant) -> Effects:
        """Until nothing is left here, or the time is over: others are invited in turn."""
        deadline = self._deadline
        if deadline is None or self.over:
            return []
        producer = self._producer
        # What is on a disk waits there; only who holds some of it is still to say so.
        left = producer.lender.loans.count if producer.spills else producer.left
        waits = left or self._holding.settling or self._adopter.busy(self._introduction.gone)
        end = later(deadline, ON_THEIR_WAY) if producer.intake.places.count else deadline
        if not waits or now >= end:
            self.over = producer.lender.gone = True
            return [Reply(operation, Stopped(producer.left)) for operation in self._asked]
        self._alarms.set(LEAVE, min(end, later(now, INVITE_EVERY)))
        heirs = self._introduction.heirs(self._me)
        if producer.spills or not producer.lender.stock.count or not heirs:
            return []
        self._invitations += 1
        return [Send(heirs[self._invitations % len(heirs)], Invite())]
