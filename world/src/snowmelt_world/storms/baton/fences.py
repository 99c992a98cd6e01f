"""What fences and beliefs say: fences only grow, and nobody believes to hold what another has."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import msgspec

from snowmelt_world.storms.baton.guard import GuardedAct
from snowmelt_world.storms.baton.journal import BatonStep
from snowmelt_world.storms.baton.turns import NEVER, GuardRefusal, HeldTurn, by_fence
from snowmelt_world.storms.events import SECOND, Spell

ASLEEP: Final = SECOND
"""Who needs longer than so many nanoseconds for an act was as good as stopped."""


class FenceCounts(msgspec.Struct, kw_only=True):
    """What is counted of them."""

    acts: int = 0
    refused_asleep: int = 0
    """Acts that the guard refused to workers that were stopped after they had made sure."""
    told_lost: int = 0
    """Holders that were told before they acted."""
    forks: int = 0
    """Children of holders that left their holds alone."""
    out_of_order: int = 0
    """Grants that were written down later than one with a larger fence."""
    broken: list[str] = []


def judge_fences(
    turns: list[HeldTurn],
    files: Iterable[tuple[str, list[GuardedAct]]],
    stopped: dict[str, list[Spell]],
) -> FenceCounts:
    """All of it."""
    fences = FenceCounts()
    users: dict[tuple[str, int], set[str]] = {}
    for baton, acts in files:
        fences.acts += len(acts)
        fences.broken += _backwards(baton, acts)
        for act in acts:
            users.setdefault((baton, act.fence), set()).add(act.who)
    for baton, holds in by_fence(turns).items():
        fences.out_of_order += sum(one.granted > other.granted for one, other in pairwise(holds))
        fences.broken += [*_twice(baton, holds), *_after_a_newer(baton, holds)]
        for hold in holds:
            users.setdefault((baton, hold.fence), set()).add(hold.who)
    fences.broken += _shared(users)
    fences.forks = sum(turn.forks for turn in turns)
    fences.told_lost = sum(turn.end is BatonStep.LOST for turn in turns)
    for turn in turns:
        awake = [one for one in turn.refusals if not _slept(one, stopped.get(turn.who, []))]
        fences.refused_asleep += len(turn.refusals) - len(awake)
        if awake:
            fences.broken.append(
                f"{turn.who} made sure that it holds {turn.baton} with fence {turn.fence}, "
                f"and was refused {(awake[0].at - awake[0].checked) / SECOND:.3f} s later, "
                f"{len(awake)} times in all"
            )
    return fences


def _backwards(baton: str, acts: list[GuardedAct]) -> Iterator[str]:
    for one, other in pairwise(acts):
        if other.fence < one.fence:
            yield (
                f"{other.who} acted under {baton} with fence {other.fence} "
                f"after {one.who} had with {one.fence}"
            )


def _shared(users: dict[tuple[str, int], set[str]]) -> Iterator[str]:
    for (baton, fence), who in sorted(users.items()):
        if len(who) > 1:
            yield f"fence {fence} of {baton} was used by {' and '.join(sorted(who))}"


def _twice(baton: str, holds: list[HeldTurn]) -> Iterator[str]:
    for one, other in pairwise(holds):
        if one.fence == other.fence:
            yield f"fence {one.fence} of {baton} was granted to {one.who}, and to {other.who}"


def _after_a_newer(baton: str, holds: list[HeldTurn]) -> Iterator[str]:
    """Whoever has seen a larger fence granted proves that the smaller ones are over."""
    newer, by = NEVER, ""
    for hold in reversed(holds):
        if hold.asked > newer:
            yield (
                f"{hold.who} was granted {baton} with fence {hold.fence}, though {by} had been "
                "granted it with a larger one before that was asked for"
            )
        late = [at for at in hold.believed if at > newer]
        if late:
            yield (
                f"{hold.who} was sure to hold {baton} with fence {hold.fence} "
                f"{(max(late) - newer) / SECOND:.3f} s after {by} had been granted a larger one"
            )
        if hold.granted < newer:
            newer, by = hold.granted, f"{hold.who} ({hold.fence})"


def _slept(refusal: GuardRefusal, stops: list[Spell]) -> bool:
    return refusal.at - refusal.checked > ASLEEP or any(
        stop.meets(refusal.checked, refusal.at) for stop in stops
    )
