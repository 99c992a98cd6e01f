"""The watch over one edge: rules 6 to 9. The parent's side has a state, the child's has none.

Neither side knows of arrows and of other edges: each is told whether its node points across
(`points`), and says whether a find is one too many, or how the edge is to be mended.
"""

from enum import Enum

from snowmelt.protocols.arrow.messages import NUMBERS, Observed, Observer


class Phase(Enum):
    OBSERVE = "observe"
    CORRECT = "correct"


class Mend(Enum):
    NOTHING = "nothing"
    INJECT = "inject"
    """Send a find for a filler."""
    RELEASE = "release"
    """Point across no more, but at oneself."""


class ParentEdge:
    """The parent's side.

    >>> edge = ParentEdge(number=7)
    >>> edge.observe()
    Observer(number=8)
    >>> edge.observed(Observed(7, points=True), points=True), edge.phase.value
    (<Mend.NOTHING: 'nothing'>, 'observe')
    >>> edge.observed(Observed(8, points=True), points=True), edge.estimate
    (<Mend.RELEASE: 'release'>, 1)
    """

    __slots__ = ("estimate", "number", "phase", "sent")

    def __init__(self, number: int = 0) -> None:
        self.phase = Phase.OBSERVE
        self.number = number
        """Of the last observer sent."""
        self.sent = 0
        """Finds sent across since then."""
        self.estimate = 1
        """Phi, as far as it is known; it means something in the correct phase."""

    def observe(self) -> Observer:
        """The time-out has come: a new observation begins."""
        self.phase = Phase.OBSERVE
        self.number = (self.number + 1) % NUMBERS
        self.sent = 0
        return Observer(self.number)

    def count_sent(self) -> None:
        """The parent sends a find across, for whatever reason."""
        self.sent += 1

    def ignores(self) -> bool:
        """Whether a find that came from the child is one too many, and ends here."""
        if self.phase is Phase.OBSERVE or self.estimate <= 1:
            return False
        self.estimate -= 1
        return True

    def observed(self, answer: Observed, *, points: bool) -> Mend:
        """The child answers; when it answers the last observer, phi is known."""
        if self.phase is not Phase.OBSERVE or answer.number != self.number:
            return Mend.NOTHING
        self.phase = Phase.CORRECT
        self.estimate = self.sent + answer.points + points
        if self.estimate == 0:
            self.estimate = 1
            return Mend.INJECT
        if self.estimate > 1 and points:
            self.estimate -= 1
            return Mend.RELEASE
        return Mend.NOTHING


def answer(observer: Observer, *, points: bool) -> Observed:
    """The child's answer.

    >>> answer(Observer(8), points=False)
    Observed(number=8, points=False)
    """
    return Observed(observer.number, points)
