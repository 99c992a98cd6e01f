"""What this node knows of homes: where each queue is, and who waits to hear it."""

from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.messages import Home, Nowhere, Roll, Rolled, Where
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.streams import node_of

AGAIN_AFTER: Final = milliseconds(300)
PATIENCE: Final = seconds(10)

Told = Callable[[Home | Nowhere], None]


class Question(msgspec.Struct):
    """Somebody waits to hear of a queue's home."""

    where: Where
    told: Told
    deadline: Instant


class Directory:
    """The homes that this node has heard of."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._homes: dict[str, Home] = {}
        self._questions: list[Question] = []
        self._asked = Instant(0)
        self._rolls: dict[int, tuple[Callable[[tuple[str, ...]], None], Instant]] = {}
        self._numbers = 0

    def home(self, queue: str) -> Home | None:
        """The last active home of a queue that was heard of."""
        return self._homes.get(queue)

    def master_of(self, queue: str) -> NodeId | None:
        """Which node is a queue's master, as far as is known."""
        home = self._homes.get(queue)
        if home is None:
            self._send(Where(queue))  # so that it is known the next time
            return None
        return node_of(home.master)

    def forget(self, queue: str) -> None:
        """What was known of this queue has turned out to be old."""
        self._homes.pop(queue, None)

    def ask(self, queue: str, told: Told, settings: QueueSettings | None = None) -> None:
        """Finds out a queue's home; the answer may come at once."""
        home = self._homes.get(queue)
        if home is not None and (settings is None or settings == home.settings):
            told(home)
            return
        if len(self._questions) >= self._desk.limits.questions:
            return  # the client asks again
        where = Where(queue, settings)
        self._questions.append(Question(where, told, later(self._desk.now, PATIENCE)))
        self._send(where)

    def wait_for_news(self, queue: str, told: Told) -> None:
        """What is known of this queue is old: waits for its next home, asking only after a while.

        Were it asked at once, a registry that knows no more could be asked without end.
        """
        self.forget(queue)
        if len(self._questions) < self._desk.limits.questions:
            deadline = later(self._desk.now, PATIENCE)
            self._questions.append(Question(Where(queue), told, deadline))
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def refresh(self, queue: str) -> None:
        """Seeks news of a queue; what is known of it may be old."""
        self._send(Where(queue))

    def roll(self, told: Callable[[tuple[str, ...]], None]) -> None:
        """Finds out which queues there are."""
        self._numbers += 1
        self._rolls[self._numbers] = told, later(self._desk.now, PATIENCE)
        presence = self._desk.presence
        if presence is not None:
            self._desk.send(presence.view.coordinator, Roll(self._numbers))

    def rolled(self, message: Rolled) -> None:
        """These are the queues."""
        told, _ = self._rolls.pop(message.number, (None, None))
        if told is not None:
            told(message.names)

    def heard(self, message: Home) -> None:
        """A home; only an active one can be used."""
        known = self._homes.get(message.queue)
        if known is not None and known.term > message.term:
            return
        if message.active:
            self._homes[message.queue] = message
            self._answer(message)
        elif known is not None and known.term < message.term:
            del self._homes[message.queue]

    def nowhere(self, message: Nowhere) -> None:
        """There is no such queue, or not with these settings."""
        if message.error == "NoSuchQueue":
            self._answer(message)
        else:
            self._answer(message, with_settings=True)

    def tick(self) -> None:
        """Asks again; gives up on whoever waited long enough."""
        now = self._desk.now
        self._questions = [one for one in self._questions if one.deadline > now]
        self._rolls = {
            number: (told, end) for number, (told, end) in self._rolls.items() if end > now
        }
        if self._questions:
            for where in dict.fromkeys(one.where for one in self._questions):
                self._send(where)

    def _send(self, where: Where) -> None:
        presence = self._desk.presence
        if presence is not None:
            self._desk.send(presence.view.coordinator, where)
        self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def _answer(self, message: Home | Nowhere, *, with_settings: bool = False) -> None:
        queue = message.queue
        answered = [
            one
            for one in self._questions
            if one.where.queue == queue and (_fits(one.where, message, with_settings))
        ]
        self._questions = [one for one in self._questions if one not in answered]
        for one in answered:
            one.told(message)


def _fits(where: Where, message: Home | Nowhere, with_settings: bool) -> bool:
    """Whether this answers that question: other settings than wanted are no answer."""
    match message:
        case Home(settings=settings):
            return where.settings is None or where.settings == settings
        case Nowhere():
            return (where.settings is not None) == with_settings
