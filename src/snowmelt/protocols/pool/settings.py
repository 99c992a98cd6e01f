"""What a process chooses for its part in a pool, checked where it is made."""

import math
from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Duration, milliseconds, seconds
from snowmelt.core.names import plain_name

OBJECT_BYTES_MAX: Final = 256 << 20
ASKED_OBJECTS_MAX: Final = 1 << 20
ASKED_BYTES_MAX: Final = 1 << 40
"""What one request may ask for."""
BUFFERS_MAX: Final = 1 << 40
HOPS_MAX: Final = 1_000
WAIT_LONGEST: Final = seconds(1_000_000)
REMEMBERED: Final = seconds(600)
"""For so long whoever took something over remembers it, at least (rule 16)."""
LEASE_SHORTEST: Final = milliseconds(100)
LEASE_LONGEST: Final = seconds(12 * 3600)


class Delivery(Enum):
    """What becomes of an object whose consumer is not heard of any more."""

    AT_LEAST_ONCE = "at_least_once"
    """It is offered again: nothing is lost, but it may have been used."""
    AT_MOST_ONCE = "at_most_once"
    """It is dropped: nothing is used twice, but it may never have been used."""


class AccessKind(Enum):
    """How a consumer draws the producer that it probes."""

    UNIFORM = "uniform"
    WEIGHTED = "weighted"
    ADAPTIVE = "adaptive"


class Access(msgspec.Struct, frozen=True):
    """The paper's `p_access`: how likely each producer is to be probed."""

    kind: AccessKind = AccessKind.ADAPTIVE
    weights: dict[str, float] = {}
    """By producers' names, when weights are given; who is not named is not probed."""
    revisit: bool = False
    """Whether one draw may name a producer that this request has asked before, as the paper's."""

    def checked(self) -> "Access":
        """Itself; raises `BadOption` for weights that can't be drawn by.

        >>> Access(AccessKind.WEIGHTED, {"fast": 2.0, "slow": -1.0}).checked()
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: access is {'slow': -1.0}; allowed: weights of 0 or more
        """
        if self.kind is not AccessKind.WEIGHTED:
            return self
        if not self.weights:
            raise BadOption("access", {}, "at least one producer's name with its weight")
        for name, weight in self.weights.items():
            if not 0 <= weight < math.inf:
                raise BadOption("access", {name: weight}, "weights of 0 or more")
        if not 0 < sum(self.weights.values()) < math.inf:
            allowed = "weights of which one at least is above 0, and whose sum is finite"
            raise BadOption("access", self.weights, allowed)
        return self


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one process chooses; others of the same pool may choose otherwise."""

    buffers: int = 5
    """How many objects a producer keeps before it must wait: the paper's `buffers`."""
    bytes_max: int = 1 << 30
    """How many bytes it keeps, of those that are with a consumer too."""
    max_hops: int = 3
    """How many producers a request probes before it waits in line: the paper's `max_hops`."""
    wait: Duration = seconds(1)
    """How long it waits there before all producers are asked; 0 is for ever, as the paper's."""
    lease: Duration = seconds(30)
    """How long an object stays with a consumer that is not heard of."""
    grace: Duration = seconds(2)
    """The same when the way to it has ended."""
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    access: Access = Access()
    fan_out: int = 0
    """How many producers a consumer may know; 0 is all."""
    spill: bool = False
    """Whether objects are on the producer's disk before a put returns."""

    def checked(self) -> "PoolSettings":
        """Itself; raises `BadOption` for a value that can't be had.

        >>> PoolSettings(max_hops=0).checked()
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: max_hops is 0; allowed: 1 to 1000
        """
        bounds = (
            ("buffers", self.buffers, 1, BUFFERS_MAX),
            ("max_bytes", self.bytes_max, 1, BUFFERS_MAX),
            ("max_hops", self.max_hops, 1, HOPS_MAX),
            ("fan_out", self.fan_out, 0, BUFFERS_MAX),
        )
        for name, value, lowest, highest in bounds:
            if not lowest <= value <= highest:
                raise BadOption(name, value, f"{lowest} to {highest}")
        durations = (
            ("wait", self.wait, 0, WAIT_LONGEST),
            ("lease", self.lease, LEASE_SHORTEST, LEASE_LONGEST),
            ("grace", self.grace, 0, LEASE_LONGEST),
        )
        for name, span, least, most in durations:
            if not least <= span <= most:
                allowed = f"{least / SECOND:g} to {most / SECOND:g} seconds"
                raise BadOption(name, span / SECOND, allowed)
        if self.spill and self.delivery is Delivery.AT_MOST_ONCE:
            allowed = "at_least_once, since what is on a disk comes again after a crash"
            raise BadOption("delivery", self.delivery.value, allowed)
        self.access.checked()
        return self


def pool_name(text: str) -> str:
    """Checks a pool's name, or that of a producer in it.

    >>> pool_name("frames/left")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: name is 'frames/left'; allowed: 1 to 100 of A-Z a-z 0-9 . _ -...
    """
    return plain_name("name", text)
