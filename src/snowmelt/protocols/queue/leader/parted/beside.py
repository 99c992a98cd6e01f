"""The anchor and the partitions that one node leads: what they say need not travel.

It is rule 16 of the package. A word that would be answered at once is a call here. Where anything
has to become safe, or sure, it goes the long way.
"""

from typing import Protocol

from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.partition_words import (
    NextPhase,
    Numbers,
    PartitionReport,
    RequestNumbers,
)


class NumberSource(Protocol):
    def at_once(self, word: RequestNumbers) -> Numbers | None:
        """The numbers, if nothing has to become safe or sure before."""


class Numbered(Protocol):
    @property
    def counting(self) -> NumberSource: ...


class Reporting(Protocol):
    def at_once(self, word: NextPhase) -> PartitionReport | None:
        """The report, if nothing has to become safe or sure before."""

    @property
    def anchor(self) -> Numbered | None:
        """Where this is the first partition."""


class Led(Protocol):
    @property
    def home(self) -> Assignment: ...

    @property
    def partition(self) -> Reporting | None:
        """Where the queue is one, and may be used."""
