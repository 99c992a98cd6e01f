"""What somebody has who asks which settings a pool needs; whatever can't be is refused by name.

Rates are per second and process here, times are seconds, sizes are bytes. `options` turns a
situation and a setting into an experiment, whose tick is a hundredth of the time that a consumer
needs for an object.
"""

import math
import re
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import OBJECT_BYTES_MAX, AccessKind
from snowmelt_lab.bounds import within
from snowmelt_lab.pool.options import PROCESSES_MAX, Group, PoolOptions

RATE_LEAST: Final = 1e-6
RATE_MOST: Final = 1e6
RATIO_MOST: Final = 1e3
"""By so much one producer may be faster than one consumer, or slower."""
TRANSIT_MOST: Final = 60_000.0
BYTES_MOST: Final = 1 << 50
TICKS_OF_USE: Final = 100.0
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(|[kKMGT]i?)B?")
_UNITS: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "ki": 2**10,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What can be chosen: the options of `cluster.pool` that bear on how it fares.

    >>> Setting(buffers=8, max_hops=3).line("frames")
    'cluster.pool("frames", buffers=8, max_hops=3, fan_out=0, access="uniform")'
    """

    buffers: int
    max_hops: int
    fan_out: int = 0
    """0 is all."""
    access: AccessKind = AccessKind.UNIFORM

    def line(self, pool: str, max_bytes: int = 0) -> str:
        """The line of Python that opens a pool so."""
        more = f", max_bytes={max_bytes}" if max_bytes else ""
        return (
            f'cluster.pool("{pool}", buffers={self.buffers}, max_hops={self.max_hops}, '
            f'fan_out={self.fan_out}, access="{self.access.value}"{more})'
        )


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes objects and who uses them, how fast, and what may be spent on it.

    >>> here = Situation(producers=200, consumers=150, produce_rate=40.0, consume_rate=50.0)
    >>> here.produced, here.consumed, here.buffers_most
    (8000.0, 7500.0, 1073)
    >>> Situation(producers=0, consumers=1, produce_rate=1.0, consume_rate=1.0)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --producers is 0; allowed: 1 to 10000
    """

    producers: int
    consumers: int
    produce_rate: float
    """Of one producer, in the mean over all."""
    consume_rate: float
    transit: float = 0.0003
    """Of a message that carries nothing."""
    object_bytes: int = 1_000_000
    bandwidth: float = 1e9
    """Bytes a second between two processes."""
    groups: tuple[Group, ...] = ()
    memory: int = 1 << 30
    """What a producer's buffers may have at most."""
    links: int = 0
    """How many producers a consumer may know at most; 0 is all."""

    def __post_init__(self) -> None:
        within("--producers", self.producers, 1, PROCESSES_MAX)
        within("--consumers", self.consumers, 1, PROCESSES_MAX)
        within("--produce-rate", self.produce_rate, RATE_LEAST, RATE_MOST)
        within("--consume-rate", self.consume_rate, RATE_LEAST, RATE_MOST)
        within("--transit-ms", self.transit * 1000, 0, TRANSIT_MOST)
        within("--object-size", self.object_bytes, 0, OBJECT_BYTES_MAX)
        within("--bandwidth", self.bandwidth, 1, BYTES_MOST)
        within("--memory", self.memory, max(1, self.object_bytes), BYTES_MOST)
        ratio = self.produce_rate / self.consume_rate
        if not 1 / RATIO_MOST <= ratio <= RATIO_MOST:
            low, high = self.consume_rate / RATIO_MOST, self.consume_rate * RATIO_MOST
            allowed = f"{low:g} to {high:g} where a consumer uses {self.consume_rate:g} a second"
            raise BadOption("--produce-rate", self.produce_rate, allowed)
        least = math.ceil(self.producers / self.consumers)
        if self.links and self.links < least:
            allowed = f"{least} or more, so that each producer is known by some consumer"
            raise BadOption("--links", self.links, allowed)
        self.options(Setting(buffers=1, max_hops=1))  # the groups are checked there

    @property
    def produced(self) -> float:
        """Objects a second, if no producer were ever held up."""
        return self.producers * self.produce_rate

    @property
    def consumed(self) -> float:
        """Objects a second, if no consumer ever waited."""
        return self.consumers * self.consume_rate

    @property
    def carrying(self) -> float:
        """How much longer an object travels than a message that carries nothing."""
        return self.object_bytes / self.bandwidth

    @property
    def tick(self) -> float:
        """In seconds."""
        return (1 / self.consume_rate + self.carrying) / TICKS_OF_USE

    @property
    def buffers_most(self) -> int:
        return max(1, self.memory // max(1, self.object_bytes))

    @property
    def uneven(self) -> bool:
        return len({group.rate for group in self.groups}) > 1

    def options(self, setting: Setting, objects: int = 100_000, seed: int = 1) -> PoolOptions:
        """The experiment.

        An object that is carried is no consumer's yet, but its consumer can do nothing else: so the
        time it takes is told as time of use, and the transit as that of a message without one.
        """
        follows = setting.access is AccessKind.ADAPTIVE and self.uneven
        whole = sum(group.count * group.rate for group in self.groups)
        shares = tuple(group.count * group.rate / whole for group in self.groups)
        return PoolOptions(
            producers=self.producers,
            consumers=self.consumers,
            buffers=setting.buffers,
            max_hops=setting.max_hops,
            produce_rate=self.produce_rate * self.tick,
            consume_rate=1 / TICKS_OF_USE,
            transit=self.transit / self.tick,
            groups=self.groups or (Group(self.producers, 1.0),),  # as one kind they solve faster
            access=AccessKind.WEIGHTED if follows else AccessKind.UNIFORM,
            shares=shares if follows else (),
            fan_out=0 if setting.fan_out >= self.producers else setting.fan_out,
            objects=objects,
            half_width=0.0,
            seed=seed,
        )


def bytes_of(option: str, text: str) -> int:
    """A size as a person writes it.

    >>> [bytes_of("--object-size", size) for size in ("100", "64kB", "1.5MB", "1MiB", "2G")]
    [100, 64000, 1500000, 1048576, 2000000000]
    >>> bytes_of("--memory", "much")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --memory is 'much'; allowed: a size, as 100, 64kB, 1MB, 1MiB
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadOption(option, text, "a size, as 100, 64kB, 1MB, 1MiB")
    return round(float(match[1]) * _UNITS[match[2]])
