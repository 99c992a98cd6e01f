"""Steps of a phase down a tree of homes, and their answers up again: seap, rules 6 to 9.

1. The anchor's node is the root, whether it has elements or not; the others stand below it, each
   with `arity` below. Where one home has everything nobody else is asked.
2. A step has a number. Who has it from above hands it on, answers for itself, and when all below
   have answered tells the one above. One step at a time: the next is asked when all have answered.
3. Who has not answered is asked again; who is asked again says again what it said, if it did.
4. A step is heard of the one above alone, and of those below an answer to what they were asked.
"""

from collections.abc import Sequence

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.desk import Desk, Patience
from snowmelt.protocols.priority.phase_messages import Answered, Asked
from snowmelt.protocols.seap.steps import Answer, Step, answers, combined, decomposed, follows


class Waves:
    """One node's place, for one queue, in one view."""

    def __init__(self, desk: Desk, queue: str, nodes: Sequence[NodeId], arity: int) -> None:
        self._desk = desk
        self._queue = queue
        at = nodes.index(desk.me) if desk.me in nodes else None
        self._above: NodeId | None = nodes[(at - 1) // arity] if at else None
        below = () if at is None else nodes[at * arity + 1 : at * arity + 1 + arity]
        self._places: tuple[NodeId, ...] = (desk.me, *below)
        """Whose answers are waited for: this node's own is the first."""
        self._number = 0
        self._steps: dict[NodeId, tuple[Step, Patience]] = {}
        """Asked, and not answered yet."""
        self._answers: dict[NodeId, Answer] = {}
        self._last: Answer | None = None
        """What was told of the last step, or has come up to the root."""
        self.due: Step | None = None
        """What this node has to answer itself."""

    @property
    def alone(self) -> bool:
        """Whether nobody else is asked (rule 1)."""
        return self._above is None and len(self._places) == 1

    @property
    def result(self) -> Answer | None:
        """At the root: what all have answered to the last step."""
        return self._last

    def ask(self, step: Step) -> None:
        """At the root: the next step."""
        assert not self._steps, f"{step} is asked while {self._steps} is not answered"
        self._begin(self._number + 1, step)

    def asked(self, source: NodeId, message: Asked) -> None:
        """From above (rule 4)."""
        if source != self._above:
            return
        if message.number == self._number + 1 and not self._steps:
            if follows(message.step, self._last):
                self._begin(message.number, message.step)
        elif message.number == self._number and self._last is not None:
            self._desk.send(source, Answered(self._desk.era, self._queue, self._number, self._last))

    def answered(self, source: NodeId, message: Answered) -> None:
        """From below."""
        asked = self._steps.get(source)
        if message.number == self._number and asked and answers(message.answer, asked[0]):
            self._take(source, message.answer)

    def answer(self, answer: Answer) -> None:
        """This node's own."""
        self.due = None
        self._take(self._desk.me, answer)

    def again(self) -> None:
        """Rule 3."""
        for node, (step, patience) in self._steps.items():
            if node != self._desk.me:
                if patience.over(self._desk.now):
                    self._say(node, step)
                self._desk.wake(patience.at, self._queue)

    def _begin(self, number: int, step: Step) -> None:
        last = [self._answers[one] for one in self._places if one in self._answers]
        steps = decomposed(step, last) if last else [step] * len(self._places)
        self._number, self._answers, self._last = number, {}, None
        for node, theirs in zip(self._places, steps, strict=True):
            patience = Patience.new(self._desk.now)
            self._steps[node] = theirs, patience
            if node == self._desk.me:
                self.due = theirs
            else:
                self._say(node, theirs)
                self._desk.wake(patience.at, self._queue)

    def _say(self, node: NodeId, step: Step) -> None:
        self._desk.send(node, Asked(self._desk.era, self._queue, self._number, step))

    def _take(self, source: NodeId, answer: Answer) -> None:
        if self._steps.pop(source, None) is None:
            return
        self._answers[source] = answer
        if self._steps:
            return
        self._last = combined([self._answers[one] for one in self._places])
        if self._above is not None:
            self._desk.send(
                self._above, Answered(self._desk.era, self._queue, self._number, self._last)
            )
