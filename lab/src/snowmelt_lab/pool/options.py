"""What an experiment with a pool can be asked for; whatever can't be had is refused here, by name.

Time is counted in ticks, as in the paper; the machines are told that a tick is a millisecond.
"""

import math
from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import HOPS_MAX, AccessKind
from snowmelt_lab.bounds import within

PROCESSES_MAX: Final = 10_000
BUFFERS_MAX: Final = 1_000_000
OBJECTS_MAX: Final = 100_000_000
HELD_MAX: Final = 10_000_000
"""In the buffers of all producers together: the warm-up grows with it, and has to end."""
RATE_LEAST: Final = 1e-6
RATE_MOST: Final = 1_000.0
TRANSIT_MOST: Final = 1e6
WARM_UP: Final = 20
"""So many times as many objects as the pool can hold go through it before it is measured."""
SHARE_SLACK: Final = 0.005
"""A person writes 0.67,0.33; shares are scaled to sum to one when they miss it by no more."""


class Algorithm(Enum):
    STOCHASTIC = "stochastic"
    CENTRAL = "central"
    MANAGER = "manager"


class Times(Enum):
    """How long it takes to make an object, or to use one, round the mean 1/rate.

    The paper's figure 6 has uniform times to make them. Transit times are exponential always.
    """

    EXPONENTIAL = "exponential"
    UNIFORM = "uniform"
    """Evenly between two thirds of the mean and four thirds: the paper's 50 to 100 round 75."""
    CONSTANT = "constant"


class Group(msgspec.Struct, frozen=True):
    """So many producers of the same rate; only how the rates compare matters."""

    count: int
    rate: float


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment. Rates are per tick and process, transit is in ticks.

    >>> options = PoolOptions(producers=4, produce_rate=0.01, groups=groups_of("1:9,3:1"))
    >>> [round(rate, 6) for rate in options.rates]
    [0.03, 0.003333, 0.003333, 0.003333]
    >>> PoolOptions(consumers=0)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --consumers is 0; allowed: 1 to 10000
    """

    algorithm: Algorithm = Algorithm.STOCHASTIC
    producers: int = 100
    consumers: int = 100
    buffers: int = 5
    max_hops: int = 3
    produce_rate: float = 0.01
    """Objects a tick of one producer that is never held up, in the mean over all producers."""
    consume_rate: float = 0.01
    transit: float = 1.0
    objects: int = 100_000
    """How many are consumed at most while it is measured; those of the warm-up come before."""
    half_width: float = 0.02
    """The kernel ends earlier when the interval's half is no more than so much of the mean wait;
    0 never."""
    seed: int = 1
    groups: tuple[Group, ...] = ()
    """Empty when all producers are alike; else producers are numbered group by group."""
    access: AccessKind = AccessKind.UNIFORM
    shares: tuple[float, ...] = ()
    """With weighted access: the share of requests to each group."""
    fan_out: int = 0
    """How many producers a consumer knows; 0 is all."""
    times: Times = Times.EXPONENTIAL
    """To make objects."""
    consume_times: Times = Times.EXPONENTIAL
    process: float = 0.0
    """Ticks that a process needs for a message, mean; the paper's d."""

    def __post_init__(self) -> None:
        within("--producers", self.producers, 1, PROCESSES_MAX)
        within("--consumers", self.consumers, 1, PROCESSES_MAX)
        within("--buffers", self.buffers, 1, min(BUFFERS_MAX, HELD_MAX // self.producers))
        within("--max-hops", self.max_hops, 1, HOPS_MAX)
        within("--produce-rate", self.produce_rate, RATE_LEAST, RATE_MOST)
        within("--consume-rate", self.consume_rate, RATE_LEAST, RATE_MOST)
        within("--transit", self.transit, 0, TRANSIT_MOST)
        within("--process", self.process, 0, TRANSIT_MOST)
        within("--half-width", self.half_width, 0, 1)
        within("--objects", self.objects, 1, OBJECTS_MAX)
        within("--seed", self.seed, 0, 2**63 - 1)
        self._check_groups()
        self._check_access()

    def _check_groups(self) -> None:
        for group in self.groups:
            within("--groups", group.count, 1, self.producers)
            within("--groups", group.rate, RATE_LEAST, RATE_MOST)
        total = sum(group.count for group in self.groups)
        if self.groups and total != self.producers:
            raise BadOption("--groups", total, f"{self.producers} producers in all groups together")

    def _check_access(self) -> None:
        least = math.ceil(self.producers / self.consumers)
        if self.fan_out:
            within("--fan-out", self.fan_out, least, self.producers)
        if self.algorithm is not Algorithm.STOCHASTIC:
            allowed = f"left out: whom to ask is not by chance with {self.algorithm.value}"
            if self.fan_out:
                raise BadOption("--fan-out", self.fan_out, allowed)
            if self.access is not AccessKind.UNIFORM:
                raise BadOption("--access", self.access.value, allowed)
        if self.access is not AccessKind.WEIGHTED:
            return
        if len(self.shares) != len(self.groups) or not self.groups:
            given = ",".join(f"{share:g}" for share in self.shares)
            allowed = f"a share for each group, of which there are {len(self.groups)}"
            raise BadOption("--access", given, allowed)
        for share in self.shares:
            within("--access", share, 0, 1)
        if abs(sum(self.shares) - 1) > SHARE_SLACK:
            given = ",".join(f"{share:g}" for share in self.shares)
            raise BadOption("--access", given, "shares that sum to one")

    @property
    def rates(self) -> list[float]:
        """What each producer makes in a tick when it is not held up."""
        if not self.groups:
            return [self.produce_rate] * self.producers
        whole = sum(group.count * group.rate for group in self.groups)
        unit = self.produce_rate * self.producers / whole
        return [unit * group.rate for group in self.groups for _ in range(group.count)]

    @property
    def weights(self) -> list[float]:
        """How likely a probe goes to each producer, when access is by shares."""
        return [
            share / sum(self.shares) / group.count
            for share, group in zip(self.shares, self.groups, strict=True)
            for _ in range(group.count)
        ]

    @property
    def capacity(self) -> int:
        """How many objects the pool can hold, and consumers."""
        return self.producers * self.buffers + self.consumers

    @property
    def warm_up(self) -> int:
        """How many objects are consumed before it is measured."""
        return WARM_UP * self.capacity + self.objects // 10

    @property
    def load(self) -> float:
        """The paper's l: what consumers could use beside what producers could make.

        >>> PoolOptions(producers=100, consumers=150).load
        1.5
        """
        return self.consumers * self.consume_rate / (self.producers * self.produce_rate)


def groups_of(text: str) -> tuple[Group, ...]:
    """Reads `count:relative rate`, by commas.

    >>> groups_of("50:2,50:1")
    (Group(count=50, rate=2.0), Group(count=50, rate=1.0))
    >>> groups_of("50")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --groups is '50'; allowed: count:relative rate, by commas...
    """
    try:
        pairs = [word.split(":") for word in text.split(",")] if text else []
        return tuple(Group(int(count), float(rate)) for count, rate in pairs)
    except ValueError:
        allowed = "count:relative rate, by commas, such as 50:2,50:1"
        raise BadOption("--groups", text, allowed) from None


def access_of(text: str) -> tuple[AccessKind, tuple[float, ...]]:
    """Reads `uniform`, `adaptive`, or the share of requests to each group, by commas.

    >>> access_of("adaptive")
    (<AccessKind.ADAPTIVE: 'adaptive'>, ())
    >>> access_of("0.67,0.33")
    (<AccessKind.WEIGHTED: 'weighted'>, (0.67, 0.33))
    """
    if text in (AccessKind.UNIFORM.value, AccessKind.ADAPTIVE.value):
        return AccessKind(text), ()
    try:
        return AccessKind.WEIGHTED, tuple(float(word) for word in text.split(","))
    except ValueError:
        allowed = "uniform, adaptive, or the share of requests to each group, such as 0.67,0.33"
        raise BadOption("--access", text, allowed) from None
