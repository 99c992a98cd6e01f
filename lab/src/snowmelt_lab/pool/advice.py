"""Which settings a pool needs: the cheapest that give all but a hundredth of what can be had.

The objective
-------------
1. *What can be had* is the highest throughput that any setting gives within the bounds: memory for
   a producer's buffers, and producers that a consumer may know.
2. *The goal* is 99 % of it. That is a goal for the wait, too. A consumer either uses an object or
   waits for one, so it gets one in 1/mu + W, and throughput is M / (1/mu + W): of two settings the
   one with the higher throughput has the shorter wait. A wait above the shortest by a hundredth of
   that cycle is as much as the goal lets pass.
3. *The price* of a setting is what it takes for an object and in a producer, added up as messages:
   a probe more is one; so are ten objects more in each producer, for they are lost when it dies
   and grow old there; and so are ten megabytes more of them.
4. For each number of hops the fewest buffers that reach the goal are sought, by halving, since more
   of them never give less. Of these pairs the one with the lowest price is taken. By 2 no setting
   of a lower price, or of the same one, has a shorter wait: it would reach the goal as well.
5. *Access* follows the rates of producers that differ, when that gives a hundredth more than asking
   all alike; else there is nothing to learn. Adaptive access reaches the shares that follow the
   rates within about 3 % of the wait, so these are what is asked for it.
6. *Fan-out* is the smallest that costs less than half a hundredth, from max_hops + 1 on. Each
   producer is to be known by two consumers, for what only one knows nobody finds when that one
   dies. Where a list would have half of all producers, it may have all.

Who judges
----------
The models of `models` judge, where they are near: they are exact in their numbers, so halving by
them is sound. They take what producers hold as independent, and are off where that is far from so:
with fewer than `FEW` of one kind, and where each consumer has its own short list. There the kernel
judges; it has to be told apart from its noise, a third of a percent.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import ceil
from typing import Final, Protocol

import msgspec

from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.options import PoolOptions
from snowmelt_lab.pool.situation import Setting, Situation

GOAL: Final = 0.99
ALL_BUT: Final = 0.995
"""A list of producers is long enough with so much of what knowing all of them gives."""
BUFFERS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50)
HOPS: Final = (1, 2, 3, 4, 5, 7, 10)
OBJECTS_A_MESSAGE: Final = 10
BYTES_A_MESSAGE: Final = 10_000_000
KNOWN_BY: Final = 2
"""So many consumers should know each producer."""
WIDER: Final = 1.4
"""By so much the next fan-out is wider that is tried."""
FEW: Final = 10
OBJECTS: Final = 200_000
"""In a run of the kernel."""
MESSAGE_BYTES: Final = 100
"""Of one that carries nothing, with what the network adds."""
DEFAULT: Final = Setting(buffers=5, max_hops=3, access=AccessKind.ADAPTIVE)


class Fares(Protocol):
    """How an experiment fares; the models and the kernel both tell."""

    @property
    def throughput(self) -> float:
        """Objects a tick."""

    @property
    def wait_mean(self) -> float:
        """Ticks from a request to its object."""

    @property
    def hops_mean(self) -> float:
        """Probes for an object."""

    @property
    def producer_blocked(self) -> float:
        """The share of time that producers are held up."""


Judge = Callable[[PoolOptions], Fares]


class Judges(msgspec.Struct, frozen=True):
    model: Judge
    kernel: Judge | None = None
    """None: the model judges all."""

    def near(self, situation: Situation) -> Judge:
        """For consumers that know all."""
        few = min(situation.producers, situation.consumers) < FEW
        return self.kernel if few and self.kernel is not None else self.model

    def of(self, situation: Situation, setting: Setting) -> Judge:
        if setting.fan_out and self.kernel is not None:
            return self.kernel
        return self.near(situation)

    def said_by(self, situation: Situation, setting: Setting) -> str:
        return "simulation" if self.of(situation, setting) is self.kernel else "model"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting gives, and what it costs. Seconds and bytes."""

    throughput: float
    wait: float
    messages: float
    """An object; from the request to its settlement."""
    producer_use: float
    """The share of their time in which producers make objects."""
    consumer_use: float
    memory: int
    """Of a producer: full buffers, and what consumers have of it on loan in the mean."""
    memory_all: int
    consumer_links: int
    producer_links: int
    """Consumers who know it, and producers to whom it passes requests on."""
    links_all: int
    network: float
    """Bytes a second, of all together."""


class Alternative(msgspec.Struct, frozen=True):
    name: str
    setting: Setting
    outcome: Outcome
    judge: str


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The setting, and what else was looked at."""

    situation: Situation
    chosen: Alternative
    others: tuple[Alternative, ...]
    most: float
    """The throughput that can be had."""
    gain: float
    """How much more throughput access that follows rates gives, as a share."""

    @property
    def setting(self) -> Setting:
        return self.chosen.setting

    @property
    def max_bytes(self) -> int:
        """What a producer may keep, where the product's own bound would hold it up; else 0.

        Objects on loan count there, and a producer may have lent thrice as many as in the mean.
        """
        size = self.situation.object_bytes
        needed = round(3 * self.chosen.outcome.memory + 3 * size)
        return needed if needed > 1 << 30 else 0


def judges() -> Judges:
    """The models and the kernel."""
    from snowmelt_lab.pool.kernel import run  # noqa: PLC0415  # numba takes a second to load
    from snowmelt_lab.pool.models import solve  # noqa: PLC0415

    return Judges(cache(solve), cache(run))


def advise(situation: Situation, by: Judges) -> Advice:
    judge = by.near(situation)
    access = AccessKind.ADAPTIVE if situation.uneven else AccessKind.UNIFORM
    pairs, most = _pairs(situation, access, judge)
    setting = min(
        pairs, key=lambda one: price(situation, one, judge(situation.options(one, OBJECTS)))
    )
    setting, gain = _access(situation, setting, judge)
    setting = _fan_out(situation, setting, by)
    chosen = alternative("advised", situation, setting, by)
    others = [
        alternative(f"{pair.max_hops} hops", situation, _as_wide(pair, setting), by)
        for pair in pairs
        if pair.max_hops != setting.max_hops
    ]
    if setting.fan_out:
        wide = msgspec.structs.replace(setting, fan_out=0)
        others.append(alternative("know all", situation, wide, by))
    others.append(alternative("default", situation, DEFAULT, by))
    return Advice(situation=situation, chosen=chosen, others=tuple(others), most=most, gain=gain)


def _as_wide(pair: Setting, chosen: Setting) -> Setting:
    """Another pair, with as short a list as was chosen."""
    fan_out = chosen.fan_out and max(chosen.fan_out, pair.max_hops + 1)
    return msgspec.structs.replace(pair, fan_out=fan_out, access=chosen.access)


def simulated(advice: Advice, kernel: Judge) -> Alternative:
    """The advised setting again, by other dice and five times as long as was judged by."""
    situation, setting = advice.situation, advice.setting
    fares = kernel(situation.options(setting, 5 * OBJECTS, seed=2))
    return Alternative("simulated", setting, outcome(situation, setting, fares), "simulation")


def alternative(name: str, situation: Situation, setting: Setting, by: Judges) -> Alternative:
    fares = by.of(situation, setting)(situation.options(setting, OBJECTS))
    said_by = by.said_by(situation, setting)
    return Alternative(name, setting, outcome(situation, setting, fares), said_by)


def price(situation: Situation, setting: Setting, fares: Fares) -> float:
    """Rule 3; in messages."""
    kept = setting.buffers * situation.object_bytes
    messages = fares.hops_mean + 1
    return messages + setting.buffers / OBJECTS_A_MESSAGE + kept / BYTES_A_MESSAGE


def outcome(situation: Situation, setting: Setting, fares: Fares) -> Outcome:
    """What was judged in ticks, in the units of a person."""
    producers, consumers = situation.producers, situation.consumers
    size = situation.object_bytes
    throughput = fares.throughput / situation.tick
    on_loan = throughput * (1 / situation.consume_rate + situation.carrying)
    memory = size * (setting.buffers + on_loan / producers)
    messages = fares.hops_mean + 2
    known = min(setting.fan_out or producers, producers)
    met = _producers_met(producers, consumers, known) if setting.max_hops > 1 else 0.0
    return Outcome(
        throughput=throughput,
        wait=fares.wait_mean * situation.tick + situation.carrying,
        messages=messages,
        producer_use=1 - fares.producer_blocked,
        consumer_use=throughput / situation.consumed,
        memory=round(memory),
        memory_all=round(memory * producers),
        consumer_links=known,
        producer_links=ceil(consumers * known / producers + met),
        links_all=round(consumers * known + producers * met / 2),
        network=throughput * (size + messages * MESSAGE_BYTES),
    )


# --- buffers and hops ----------------------------------------------------------------------------


def _pairs(
    situation: Situation, access: AccessKind, judge: Judge
) -> tuple[tuple[Setting, ...], float]:
    """For each number of hops the fewest buffers that reach the goal, and what can be had."""
    buffers = [one for one in BUFFERS if one <= situation.buffers_most]
    reach = min(situation.producers, situation.links or situation.producers)
    hops = [one for one in HOPS if one <= reach] or [1]

    def throughput(buffers: int, max_hops: int) -> float:
        setting = Setting(buffers=buffers, max_hops=max_hops, access=access)
        return judge(situation.options(setting, OBJECTS)).throughput

    highest = {one: throughput(buffers[-1], one) for one in hops}
    most = max(highest.values())
    goal = GOAL * most

    def enough(max_hops: int, buffers: int) -> bool:
        return throughput(buffers, max_hops) >= goal

    pairs = tuple(
        Setting(
            buffers=_fewest(buffers, partial(enough, one)),
            max_hops=one,
            access=access,
        )
        for one in hops
        if highest[one] >= goal
    )
    return pairs, most / situation.tick


def _fewest(ladder: list[int], enough: Callable[[int], bool]) -> int:
    """The first rung that is enough; the last is known to be."""
    low, high = 0, len(ladder) - 1
    while low < high:
        middle = (low + high) // 2
        if enough(ladder[middle]):
            high = middle
        else:
            low = middle + 1
    return ladder[high]


# --- access and fan-out --------------------------------------------------------------------------


def _access(situation: Situation, setting: Setting, judge: Judge) -> tuple[Setting, float]:
    """Rule 5; and how much throughput it brings to follow the rates."""
    if not situation.uneven:
        return setting, 0.0
    alike = msgspec.structs.replace(setting, access=AccessKind.UNIFORM)
    follows, uniform = (
        judge(situation.options(one, OBJECTS)).throughput for one in (setting, alike)
    )
    gain = follows / uniform - 1
    return (alike if uniform >= GOAL * follows else setting), gain


def _fan_out(situation: Situation, setting: Setting, by: Judges) -> Setting:
    """Rule 6."""
    producers, most = situation.producers, situation.links or situation.producers
    judge = by.kernel or by.model
    bound = 0 if most >= producers else most

    def throughput(fan_out: int) -> float:
        options = situation.options(msgspec.structs.replace(setting, fan_out=fan_out), OBJECTS)
        return judge(options).throughput

    widths = list(_widths(situation, setting, most))
    enough = ALL_BUT * throughput(0) if widths else 0.0
    found = next((one for one in widths if throughput(one) >= enough), bound)
    return msgspec.structs.replace(setting, fan_out=found)


def _widths(situation: Situation, setting: Setting, most: int) -> Iterator[int]:
    """What is tried, from the narrowest: up to the bound, and to half of all."""
    producers = situation.producers
    width = max(setting.max_hops + 1, ceil(KNOWN_BY * producers / situation.consumers))
    while width <= most and 2 * width <= producers:
        yield width
        width = ceil(width * WIDER)


def _producers_met(producers: int, consumers: int, known: int) -> float:
    """With how many producers one shares a consumer, and so passes requests on to.

    >>> [round(_producers_met(200, 150, known), 1) for known in (1, 5, 200)]
    [0.0, 14.5, 199.0]
    """
    if producers == 1:
        return 0.0
    shared = known * (known - 1) / (producers * (producers - 1))
    return (producers - 1) * (1 - (1 - shared) ** consumers)
