"""What nodes say to each other in the phases of a queue with any priorities (`seap`)."""

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.protocols.priority.batches import SharesInOrder
from snowmelt.protocols.priority.fields import Era, Serial
from snowmelt.protocols.priority.settings import Name
from snowmelt.protocols.seap.steps import Answer, Step


class Asked(msgspec.Struct, frozen=True, tag="priority.asked", array_like=True):
    """A step of a phase, to a home below."""

    era: Era
    queue: Name
    number: Serial
    step: Step


class Answered(msgspec.Struct, frozen=True, tag="priority.answered", array_like=True):
    """What a home, and those below it, say to a step."""

    era: Era
    queue: Name
    number: Serial
    answer: Answer


class Ranked(msgspec.Struct, frozen=True, tag="priority.ranked", array_like=True, gc=False):
    """A home says where elements are that have the ranks from `start` on (rule 10)."""

    era: Era
    queue: Name
    serial: Serial
    start: Serial
    shares: SharesInOrder


class Met(msgspec.Struct, frozen=True, tag="priority.met", array_like=True):
    """That is known."""

    era: Era
    queue: Name
    serial: Serial


class Seek(msgspec.Struct, frozen=True, tag="priority.seek", array_like=True):
    """A door wants to know where the elements of these ranks are."""

    era: Era
    queue: Name
    serial: Serial
    ranks: Interval


class Sought(msgspec.Struct, frozen=True, tag="priority.sought", array_like=True):
    """They are here, in the order of their ranks."""

    era: Era
    queue: Name
    serial: Serial
    shares: SharesInOrder
