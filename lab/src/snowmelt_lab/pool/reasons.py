"""Why a setting is advised, in sentences; a line each for what a person should know besides."""

from collections.abc import Iterator
from typing import Final

from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.advice import GOAL, KNOWN_BY, Advice
from snowmelt_lab.pool.situation import Situation

NEAR: Final = 0.05
"""As far from each other supply and demand count as alike."""
BUSY: Final = 0.3
"""A share of the bandwidth above which transfers get into each other's way."""


def reasons(advice: Advice) -> list[str]:
    """One for the situation, one for each choice, and warnings.

    >>> from snowmelt_lab.pool.situation import Situation
    >>> here = Situation(producers=100, consumers=50, produce_rate=10.0, consume_rate=10.0)
    >>> print(bottleneck(here))
    consumers are the bottleneck: they use 500 objects a second at most, producers make 1,000
    """
    return [bottleneck(advice.situation), *_choices(advice), *_warnings(advice)]


def bottleneck(situation: Situation) -> str:
    made, used = situation.produced, situation.consumed
    if abs(made - used) <= NEAR * max(made, used):
        return (
            f"producers make {made:,.5g} objects a second and consumers use {used:,.5g} at most: "
            "so near each other that each waits for the other now and then"
        )
    if made > used:
        return (
            "consumers are the bottleneck: "
            f"they use {used:,.5g} objects a second at most, producers make {made:,.5g}"
        )
    wait = situation.consumers / made - 1 / situation.consume_rate
    return (
        f"producers are the bottleneck: they make {made:,.5g} objects a second, consumers could "
        f"use {used:,.5g}; so these wait for {wait * 1000:,.4g} ms at least, whatever the settings"
    )


def _choices(advice: Advice) -> Iterator[str]:
    setting, situation = advice.setting, advice.situation
    yield (
        f"buffers {setting.buffers}, max_hops {setting.max_hops}: the cheapest pair that gives "
        f"{GOAL:.0%} of the most that can be had, {advice.most:,.5g} a second{_next_pairs(advice)}"
    )
    yield f"fan_out {setting.fan_out}: {_of_fan_out(advice)}"
    yield f'access "{setting.access.value}": {_of_access(advice)}'
    if situation.buffers_most <= setting.buffers:
        yield (
            f"--memory allows {situation.buffers_most} objects in a producer; with more of it "
            "more might go through"
        )


def _next_pairs(advice: Advice) -> str:
    """The neighbours, to see what a hop is worth."""
    setting = advice.setting
    near = [
        f"{one.setting.buffers} with {one.name}"
        for one in advice.others
        if one.name.endswith("hops") and abs(one.setting.max_hops - setting.max_hops) <= 2
    ]
    return f" (buffers it takes else: {', '.join(near)})" if near else ""


def _of_fan_out(advice: Advice) -> str:
    setting, situation = advice.setting, advice.situation
    if not setting.fan_out:
        return "a consumer may know all; a list as good as that would have half of them or more"
    known_by = situation.consumers * setting.fan_out / situation.producers
    costs = 1 - advice.chosen.outcome.throughput / _all_known(advice)
    text = (
        f"so short a list costs {max(0.0, costs):.1%} of the throughput, and a consumer has "
        f"{setting.fan_out} connections instead of {situation.producers:,}; each producer is known "
        f"by {known_by:.3g} consumers"
    )
    if known_by < KNOWN_BY:
        text += ", so what it has is found by nobody when that one dies: allow more --links"
    return text


def _all_known(advice: Advice) -> float:
    return next(one.outcome.throughput for one in advice.others if one.name == "know all")


def _of_access(advice: Advice) -> str:
    if not advice.situation.uneven:
        return "producers are alike, so there is nothing to learn from their rates"
    gain = f"{advice.gain:+.1%}"
    if advice.setting.access is AccessKind.ADAPTIVE:
        return (
            f"asking producers as often as they are fast gives {gain} throughput against asking "
            "all alike; rates that are learnt reach that within about 3 % of the wait"
        )
    return f"asking producers as often as they are fast would change throughput by {gain} only"


def _warnings(advice: Advice) -> Iterator[str]:
    situation, outcome = advice.situation, advice.chosen.outcome
    for who, count in (("producer", situation.producers), ("consumer", situation.consumers)):
        busy = outcome.network / count / situation.bandwidth
        if busy > BUSY:
            yield (
                f"warning: a {who}'s objects take {busy:.0%} of its --bandwidth; they will wait "
                "for each other on the way, which is not in these figures"
            )
    if advice.max_bytes:
        yield (
            "max_bytes: objects on loan count there too, and the default, 1 GiB, would hold "
            "producers up"
        )
    lost = outcome.memory / max(1, situation.object_bytes)
    yield (
        f"a producer that dies without spill takes up to {advice.setting.buffers} objects with "
        f"it; with those on loan it has {lost:.3g} in memory"
    )
