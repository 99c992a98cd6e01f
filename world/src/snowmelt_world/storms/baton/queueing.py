"""What the waiters may expect: their order when it is calm, an end, and a turn in the end.

What is late by no more than some process stood in line for a processor meanwhile is told, and not
judged (see `starving`).
"""

from collections.abc import Iterable

import msgspec

from snowmelt_world.storms.baton.journal import BatonStep
from snowmelt_world.storms.baton.turns import NEVER, HeldTurn
from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.events import SECOND, Spell
from snowmelt_world.storms.starving import Starving


class WaitBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How long what may last, in seconds."""

    settle: float
    """After the last fault, until the order is that of the queue."""
    serve: float
    """After that, until everybody has had every baton."""
    overtaking: float
    """Who asks so much later may not come first."""
    timeout: float
    """Of a wish."""
    late: float
    """A wish may last so much longer."""


class Queueing(msgspec.Struct, kw_only=True):
    """What is counted of them."""

    in_order: int = 0
    """Grants that came in calm windows, to wishes that began there."""
    window_seconds: float = 0.0
    """All those windows together."""
    overtaken_seconds: float = 0.0
    """So much later than another had asked one that came first, in such a window."""
    longest_wish: float = 0.0
    denied: int = 0
    slowest_served: float = 0.0
    """When everybody had been served at the end, after the settling."""
    broken: list[str] = []
    unjudged: list[str] = []
    """Where the machine itself may have been too slow."""

    def late(self, text: str, seconds: float, starved: float) -> None:
        """Something took so many seconds more than it may."""
        if starved:
            text += f"; meanwhile a process stood in line for a processor for {starved:.2f} s"
        (self.broken if seconds > starved else self.unjudged).append(text)


def settled(calms: list[Spell], bounds: WaitBounds) -> list[Spell]:
    """When nothing had been done for so long that the order must be that of the queue."""
    settle = int(bounds.settle * SECOND)
    windows = [Spell(calm.start + settle, calm.stop) for calm in calms]
    return [window for window in windows if window.start < window.stop]


def judge_queueing(
    turns: list[HeldTurn],
    lives: Iterable[ClientLife],
    windows: list[Spell],
    stopped: dict[str, list[Spell]],
    bounds: WaitBounds,
    starving: Starving,
) -> Queueing:
    """All of it."""
    found = Queueing(denied=sum(turn.end is BatonStep.DENIED for turn in turns))
    for window in windows:
        found.window_seconds += round((window.stop - window.start) / SECOND, 1)
        _overtaking(found, turns, window, bounds, starving)
    _wishes(found, turns, windows, stopped, bounds, starving)
    if windows:
        _serving(found, turns, lives, windows[-1], bounds, starving)
    return found


def _overtaking(
    found: Queueing, turns: list[HeldTurn], window: Spell, bounds: WaitBounds, starving: Starving
) -> None:
    """Who asked in this window, and came before one that had asked long before.

    Who had asked before the window was in the queue when it began.
    """
    for first in turns:
        if not window.start <= first.asked < first.granted <= window.stop:
            continue
        found.in_order += 1
        waiting = [other for other in turns if _passed(other, first)]
        if not waiting:
            continue
        other = min(waiting, key=lambda one: one.asked)
        seconds = round((first.asked - max(other.asked, window.start)) / SECOND, 3)
        found.overtaken_seconds = max(found.overtaken_seconds, seconds)
        if seconds > bounds.overtaking:
            before = (first.asked - other.asked) / SECOND
            found.late(
                f"{first.who} asked for {first.baton} {before:.2f} s after {other.who}, "
                f"and was granted it before (fence {first.fence}), though it was calm",
                seconds - bounds.overtaking,
                starving.seconds(other.asked, first.granted),
            )


def _passed(other: HeldTurn, first: HeldTurn) -> bool:
    return (
        other.baton == first.baton
        and other.asked < first.asked
        and other.waited_until > first.granted
        and (not other.fence or other.fence > first.fence)
    )


def _wishes(
    found: Queueing,
    turns: Iterable[HeldTurn],
    windows: list[Spell],
    stopped: dict[str, list[Spell]],
    bounds: WaitBounds,
    starving: Starving,
) -> None:
    for turn in turns:
        if turn.waited_until == NEVER:
            found.broken.append(f"{turn.who} waited for {turn.baton} when it was all over")
            continue
        slept = sum(
            stop.common(turn.asked, turn.waited_until) for stop in stopped.get(turn.who, [])
        )
        seconds = round((turn.waited_until - turn.asked - slept) / SECOND, 2)
        found.longest_wish = max(found.longest_wish, seconds)
        if seconds > bounds.timeout + bounds.late:
            starved = starving.seconds(turn.asked, turn.waited_until)
            most = bounds.timeout + bounds.late
            found.late(
                f"{turn.who} waited {seconds:.1f} s for {turn.baton}", seconds - most, starved
            )
        if turn.end is BatonStep.FAILED:
            found.broken.append(f"no node could tell {turn.who} of {turn.baton} in time")
        if turn.end is BatonStep.DENIED and any(
            turn.asked < window.start and window.stop < turn.ended for window in windows
        ):
            found.broken.append(
                f"{turn.who} was not granted {turn.baton} in {seconds:.0f} s, calm ones among them"
            )


def _serving(
    found: Queueing,
    turns: list[HeldTurn],
    lives: Iterable[ClientLife],
    window: Spell,
    bounds: WaitBounds,
    starving: Starving,
) -> None:
    """At the end everybody who lives has every baton."""
    end = min(window.stop, window.start + int(bounds.serve * SECOND))
    firsts: dict[tuple[str, str], int] = {}
    for turn in turns:
        if turn.granted >= window.start:
            key = (turn.who, turn.baton)
            firsts[key] = min(turn.granted, firsts.get(key, NEVER))
    batons = sorted({turn.baton for turn in turns})
    for life in lives:
        for baton in batons if not life.killed else ():
            at = firsts.get((life.name, baton), NEVER)
            seconds = round((at - window.start) / SECOND, 2)
            if at > end:
                found.late(
                    f"{life.name} did not have {baton} within "
                    f"{(end - window.start) / SECOND:.0f} s at the end",
                    (end - window.start) / SECOND / 2,  # who had half of it had enough
                    starving.seconds(window.start, min(at, window.stop)),
                )
            else:
                found.slowest_served = max(found.slowest_served, seconds)
