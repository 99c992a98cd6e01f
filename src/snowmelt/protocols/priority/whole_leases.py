"""How a home's leases begin and end that are kept as a whole (`wholes.py`)."""

from collections.abc import Sequence

from snowmelt.core.instant import Duration
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.leases import Leases
from snowmelt.protocols.priority.messages import Mark, Want, Word
from snowmelt.protocols.priority.rules import Rules
from snowmelt.protocols.priority.settings import How, State
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.standing import NEW, Standing, marked
from snowmelt.protocols.priority.urgency import Urgency


class WholeLeases:
    """Of one queue with any priorities, at one home, in one view.

    What they tell is so here already, and is for those who keep copies.
    """

    def __init__(
        self, desk: Desk, shelf: Shelf, rules: Rules, leases: Leases, urgency: Urgency
    ) -> None:
        self._desk = desk
        self._shelf = shelf
        self._rules = rules
        self._leases = leases
        self._urgency = urgency

    def begin(self, want: Want, time: Duration) -> Mark | None:
        """One get has all that a phase took, of which nothing was said; None for other gets."""
        if not self._urgency.chose(want.shares):
            return None
        standing = self._rules.leasing(want, time)(NEW)
        assert standing is not None, "what is new may be leased"
        standing = standing.after(NEW, self._desk.epoch)
        if not self._shelf.wholes.lease(want.shares, standing):
            return None
        self._urgency.leased(want.shares)
        self._leases.lease(want.token, want.shares, time)
        return marked(want.shares, standing)

    def end(self, word: Word) -> Mark | None:
        """All of one is acknowledged at once; None for other words."""
        if word.how != How.DONE:
            return None
        was = self._shelf.wholes.end(word.token, word.shares)
        if was is None:
            return None
        self._leases.end(word.token, word.shares)
        self._shelf.ended.add(word.token, word.shares)
        gone = Standing(was.epoch, was.turn, State.GONE, word.token)
        return marked(word.shares, gone.after(was, self._desk.epoch))


def ended(
    wholes: WholeLeases | None, words: Sequence[Word]
) -> tuple[list[Mark], list[tuple[int, Word]]]:
    """What is gone as a whole by some words; and all other words, each with its place."""
    gone: list[Mark] = []
    said: list[tuple[int, Word]] = []
    for at, word in enumerate(words):
        mark = wholes.end(word) if wholes is not None else None
        if mark is None:
            said.append((at, word))
        else:
            gone.append(mark)
    return gone, said
