"""Whether a journal is still the newest: rule 7 of `journal.py`.

1. A question has a number, and goes to every mirror that is here. A mirror says yes to it, and so
   to all before it, unless it was told of a later journal (`mirrors.py`, rule 1).
2. It is confirmed when as many said yes as have to keep a step beside the master. A mirror that has
   taken a step made after a question was asked after it, too, and has said yes.
3. Who is silent is asked again after a while, as long as a question is open.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, later, milliseconds
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.messages import Vouch, Vouched
from snowmelt.protocols.fifo.streams import node_of

AGAIN_AFTER: Final[Duration] = milliseconds(500)


class Question(msgspec.Struct):
    number: int
    step: int
    """The last step that was made before it."""
    asked: Instant | None = None


class Confirming:
    """The questions of one journal, and who said yes.

    >>> asking = Confirming(1, ["n2/1", "n3/1"], ("orders", 2, 77))
    >>> number = asking.ask(step=7)
    >>> list(asking.due(["n2/1"], START)), asking.is_confirmed(number)
    ([('n2/1', 1)], False)
    >>> asking.said("n2/1", number); asking.is_confirmed(number)
    True
    """

    def __init__(self, needed: int, keepers: Iterable[str], journal: tuple[str, int, int]) -> None:
        self._journal = journal
        """Its queue, its term and its name."""
        self._needed = needed
        self._yes = dict.fromkeys(keepers, 0)
        """By mirror: the last question to which it said yes."""
        self._asked: dict[str, Instant] = {}
        self._open: deque[Question] = deque()
        self._number = 0
        self._confirmed = 0

    def ask(self, step: int) -> int:
        """The number of a new question; 0, which is confirmed, where nobody need be asked."""
        if not self._needed:
            return 0
        self._number += 1
        self._open.append(Question(self._number, step))
        return self._number

    def is_confirmed(self, question: int) -> bool:
        """Rule 2."""
        return question <= self._confirmed

    def tell(self, desk: Desk) -> None:
        """Asks those who are here and have not been asked, or not for a while."""
        if self._open and desk.presence is not None:
            for keeper, number in self.due(desk.presence.keepers, desk.now):
                desk.send(node_of(keeper), Vouch(*self._journal, number))
                desk.alarms.wake(self._journal[0], later(desk.now, AGAIN_AFTER))

    def confirmed(self, message: Vouched) -> None:
        """A mirror has heard of no later journal."""
        if (message.queue, message.term, message.journal) == self._journal:
            self.said(message.keeper, message.number)

    def said(self, keeper: str, question: int) -> None:
        """Yes, to this and to all before it."""
        if keeper not in self._yes:
            return
        self._yes[keeper] = max(self._yes[keeper], min(question, self._number))
        answers = sorted(self._yes.values(), reverse=True)
        if self._needed <= len(answers):
            self._confirmed = max(self._confirmed, answers[self._needed - 1])
        while self._open and self._open[0].number <= self._confirmed:
            self._open.popleft()

    def took(self, keeper: str, step: int) -> None:
        """A mirror has this step (rule 2)."""
        if self._open and self._open[0].step < step:
            self.said(keeper, next(one.number for one in reversed(self._open) if one.step < step))

    def due(self, here: Container[str], now: Instant) -> Iterator[tuple[str, int]]:
        """Whom to ask what now (rule 3)."""
        if not self._open:
            return
        new = self._open[-1].asked is None
        for keeper, yes in self._yes.items():
            again = later(self._asked.get(keeper, START), AGAIN_AFTER) <= now
            if keeper in here and yes < self._number and (new or again):
                self._asked[keeper] = now
                yield keeper, self._number
        for question in reversed(self._open):  # there may be many while a mirror is silent
            if question.asked is not None:
                break
            question.asked = now

    def asked(self, here: Container[str]) -> list[Instant]:
        """When those were asked last who are here and owe an answer; who is away is not asked."""
        owing = (one for one, yes in self._yes.items() if one in here and yes < self._number)
        return [self._asked[one] for one in owing if one in self._asked] if self._open else []

    def silent(self, here: Container[str], since: Instant) -> str | None:
        """A mirror here that was asked before then, and has not said yes."""
        first = self._open[0] if self._open else None
        if first is None or first.asked is None or first.asked > since:
            return None
        return next(
            (one for one, yes in self._yes.items() if one in here and yes < first.number), None
        )
