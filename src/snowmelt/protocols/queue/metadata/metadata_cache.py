"""What this node knows of homes: where each queue is, and which calls wait to hear it."""

from collections import Counter, deque
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.shares import SharesHeld
from snowmelt.core.users import Patterns, fits
from snowmelt.protocols.calling import AskAnother
from snowmelt.protocols.queue.api.partition_names import part_name, part_of, whole_of
from snowmelt.protocols.queue.api.settings import QueueSettings, differences
from snowmelt.protocols.queue.api.statuses import QueueNames
from snowmelt.protocols.queue.messages.home_words import (
    Assignment,
    LocateQueue,
    Nowhere,
    Roll,
    Rolled,
)
from snowmelt.protocols.queue.messages.words import CallRouted
from snowmelt.protocols.queue.metadata.absence import waits
from snowmelt.protocols.queue.outbox import REST, Outbox

AGAIN_AFTER: Final = milliseconds(300)
PATIENCE: Final = seconds(10)

Call = tuple[OperationId, Any]


class Question(msgspec.Struct, frozen=True):
    where: LocateQueue
    call: Call | None
    """What goes on when it is answered (`words.CallRouted`). None: the news is for this node."""
    deadline: Instant


class MetadataCache:
    """The homes that this node has heard of."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._homes: dict[str, Assignment] = {}
        self._questions: dict[str, list[Question]] = {}
        self._waiting = SharesHeld[str]()
        """How many of them each has."""
        self._again = Instant(0)
        """When some are asked again, however often this node is woken until then."""
        self._rolls: dict[int, tuple[OperationId, Instant, Patterns]] = {}
        self._numbers = 0
        self._answered: deque[CallRouted] = deque()
        """Calls that go on: of thousands that waited for one home, some a turn."""

    def home(self, queue: str) -> Assignment | None:
        """The last active home of a queue that was heard of.

        Of one with several partitions it is that of the first: it is made last (`creation.py`).
        """
        return self._homes.get(queue) or self._homes.get(part_name(queue, 0))

    def home_of(self, queue: str, term: int) -> Assignment | None:
        """The same of one name, in just this term."""
        home = self._homes.get(queue)
        return home if home is not None and home.term == term else None

    def forget(self, queue: str) -> None:
        """What was known of this queue has turned out to be old."""
        self._homes.pop(queue, None)
        self._homes.pop(part_name(queue, 0), None)

    def ask(self, queue: str, call: Call | None, settings: QueueSettings | None = None) -> bool:
        """Finds out a queue's home, which may be at once; False when too many wait."""
        home = self.home(queue)
        if home is not None and (settings is None or _is_so(home, settings)):
            self._go_on(call, home)
            self.go_on()
            return True
        client = call[0].client if call else NodeId("")
        where = LocateQueue(queue, settings, client, self._outbox.payers.of(client))
        waits = self._wait(where, call)
        if waits:
            self._send(where)
        return waits

    def wait_for_news(self, queue: str, call: Call) -> None:
        """What is known of this queue is old: waits for its next home, asking only after a while.

        Were it asked at once, a controller that knows no more could be asked without end.
        """
        self.forget(queue)
        if self._wait(LocateQueue(queue), call):
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def cut_off(self) -> None:
        """No news comes any more: who waits for some asks another node."""
        asked = [one.call for those in self._questions.values() for one in those]
        waiting = [call[0] for call in asked if call is not None]
        waiting += [one[0] for one in self._rolls.values()]
        self._questions.clear()
        self._rolls.clear()
        self._waiting = SharesHeld()
        for operation in waiting:
            self._outbox.reply(operation, AskAnother())

    def _go_on(self, call: Call | None, told: Assignment | Nowhere) -> None:
        if call is not None:
            self._answered.append(CallRouted(*call, told))

    def go_on(self) -> None:
        """Calls that were answered go on, first come first."""
        for _ in range(min(len(self._answered), self._outbox.limits.told)):
            self._outbox.inside.append(self._answered.popleft())
        if self._answered:
            self._outbox.alarms.wake(REST, self._outbox.now)

    def _wait(self, where: LocateQueue, call: Call | None) -> bool:
        """Whether one more can wait, of all and of who asks; else the client asks again."""
        if not self._waiting.has_room(where.asker, 1, self._outbox.limits.questions):
            return False
        question = Question(where, call, later(self._outbox.now, PATIENCE))
        self._questions.setdefault(where.queue, []).append(question)
        self._waiting.add(where.asker)
        return True

    def refresh(self, queue: str) -> None:
        """Seeks news of a queue; what is known of it may be old."""
        self._send(LocateQueue(queue))

    def roll(self, operation: OperationId, only: Patterns) -> None:
        if len(self._rolls) >= self._outbox.limits.questions:
            return  # the client asks again
        self._numbers += 1
        self._rolls[self._numbers] = operation, later(self._outbox.now, PATIENCE), only
        self._outbox.to_coordinator(Roll(self._numbers))

    def rolled(self, _: NodeId, message: Rolled) -> None:
        operation, _end, only = self._rolls.pop(message.number, (None, None, ()))
        if operation is not None:
            every = message.names, message.ranked, message.parted
            told = [tuple([one for one in some if fits(one, only)]) for some in every]
            self._outbox.reply(operation, QueueNames(*(told if only else every)))

    def heard(self, message: Assignment) -> None:
        """A home; only an active one can be used."""
        known = self._homes.get(message.queue)
        if known is not None and known.term > message.term:
            return
        if message.active:
            self._homes[message.queue] = message
            self._answer(message)
            return
        if known is not None and known.term < message.term:
            del self._homes[message.queue]
        presence = self._outbox.presence
        whom = None if presence is None else waits(message, presence, self._outbox.now)
        if whom is not None:
            self._answer(whom)
            self._answer(whom, with_settings=True)

    def nowhere(self, _: NodeId, message: Nowhere) -> None:
        """There is no such queue, or not with these settings."""
        if message.gone or message.error == "StoreDamaged":
            self._answer(message)
        if message.error != "NoSuchQueue":
            self._answer(message, with_settings=True)

    def tick(self) -> None:
        """Gives up on whoever waited long enough, and asks again: of thousands some in turn.

        Each who asks has an equal part, up to a bound: thousands of one keep nobody else waiting.
        """
        now = self._outbox.now
        if not self._questions and not self._rolls:
            return
        if now < self._again:
            self._outbox.wake(self._again)
            return
        self._again = later(now, AGAIN_AFTER)
        self._rolls = {number: one for number, one in self._rolls.items() if one[1] > now}
        limits = self._outbox.limits
        most = min(limits.asked_again // max(1, len(self._waiting)) or 1, limits.asked_again_each)
        asked = Counter[str]()
        for queue, before in list(self._questions.items()):
            if before[0].deadline <= now:  # who asked first is the first to give up
                self._keep(queue, [one for one in before if one.deadline > now])
            questions = self._questions.get(queue)
            if questions is None or asked[questions[0].where.asker] >= most:
                continue
            asked[questions[0].where.asker] += 1
            self._questions[queue] = self._questions.pop(queue)
            for where in {one.where.settings: one.where for one in questions}.values():
                self._send(where)

    def _send(self, where: LocateQueue) -> None:
        self._outbox.to_coordinator(where)
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def _answer(self, message: Assignment | Nowhere, *, with_settings: bool = False) -> None:
        queues = [message.queue, whole_of(message.queue)]
        for queue in queues if part_of(message.queue) == 0 else queues[:1]:
            questions = self._questions.get(queue, [])
            answered = [one for one in questions if _fits(one.where, message, with_settings)]
            rest = [one for one in questions if not _fits(one.where, message, with_settings)]
            self._keep(queue, rest)
            for one in answered:
                self._go_on(one.call, message)
        self.go_on()

    def _keep(self, queue: str, questions: list[Question]) -> None:
        """Of the questions about a queue these are still open."""
        for one in self._questions.pop(queue, []):
            self._waiting.remove(one.where.asker)
        for one in questions:
            self._waiting.add(one.where.asker)
        if questions:
            self._questions[queue] = questions


def _is_so(home: Assignment, settings: QueueSettings) -> bool:
    """Whether this home answers who would have it so: of several partitions some may be missing."""
    return settings.partitions == 1 and not differences(home.asked_for, settings)


def _fits(where: LocateQueue, message: Assignment | Nowhere, with_settings: bool) -> bool:
    """Whether this answers that question: other settings than wanted are no answer."""
    if isinstance(message, Nowhere):
        return (where.settings is not None) == with_settings
    return where.settings is None or not differences(message.asked_for, where.settings)
