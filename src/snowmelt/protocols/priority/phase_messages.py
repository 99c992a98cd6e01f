"""What nodes say to each other in the phases of a queue with any priorities (`seap`)."""

from snowmelt.core.interval import Interval
from snowmelt.protocols.priority.batches import SharesInOrder
from snowmelt.protocols.priority.fields import Numbered, OfQueue, Serial
from snowmelt.protocols.seap.steps import Answer, Step


class Asked(OfQueue, frozen=True, tag="priority.asked", array_like=True):
    """A step of a phase, to a home below."""

    number: Serial
    step: Step


class Answered(OfQueue, frozen=True, tag="priority.answered", array_like=True):
    """What a home, and those below it, say to a step."""

    number: Serial
    answer: Answer


class Ranked(Numbered, frozen=True, tag="priority.ranked", array_like=True, gc=False):
    """A home says where elements are that have the ranks from `start` on (rule 10)."""

    start: Serial
    shares: SharesInOrder


class Met(Numbered, frozen=True, tag="priority.met", array_like=True):
    """That is known."""


class Seek(Numbered, frozen=True, tag="priority.seek", array_like=True):
    """A door wants to know where the elements of these ranks are."""

    ranks: Interval


class Sought(Numbered, frozen=True, tag="priority.sought", array_like=True):
    """They are here, in the order of their ranks."""

    shares: SharesInOrder
