"""What the journals say of the promises, and what they count beside them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from snowmelt_world.storms.baton.fences import FenceCounts, judge_fences
from snowmelt_world.storms.baton.guard import acts
from snowmelt_world.storms.baton.pauses import longest, longest_within, pauses
from snowmelt_world.storms.baton.queueing import (
    Queueing,
    WaitBounds,
    judge_queueing,
    settled,
)
from snowmelt_world.storms.baton.turns import NEVER, HeldTurn, read_turns
from snowmelt_world.storms.baton.values import ValueCounts, judge_values
from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.events import SECOND, Spell, calms, read_events, stops, storms
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.starving import read_starving

FENCES: Final = "fences grow, and nobody is sure to hold what another has"
QUEUEING: Final = "turns come in time, and in order when it is calm"
VALUES: Final = "a value is the last that was left, or saved"


def judge_batons(folder: Path, lives: Sequence[ClientLife], bounds: WaitBounds) -> Judgement:
    """Reads all that was written down."""
    turns = read_turns(folder, lives)
    events = read_events(folder)
    stopped = stops(events)
    quiet = calms(events)
    end = max((calm.stop for calm in quiet), default=NEVER)
    windows = settled(quiet, bounds)
    idle = pauses(turns, stopped, end)
    worst = longest(idle, events)
    fences = judge_fences(turns, acts(folder), stopped)
    queueing = judge_queueing(turns, lives, windows, stopped, bounds, read_starving(folder))
    values = judge_values(turns)
    return Judgement(
        operations=len(turns),
        longest_wait_s=queueing.longest_wish,
        properties={
            FENCES: fences.broken,
            QUEUEING: queueing.broken,
            VALUES: values.broken,
        },
        counted={
            "grants": sum(turn.granted > 0 for turn in turns),
            "grants a second, in storm": _rate(turns, storms(events)),
            "grants a second, in calm": _rate(turns, quiet),
            **_counted(fences, queueing, values),
            "longest that nobody held what was wanted (s)": worst.seconds,
            "the last fault before": worst.after,
            "the same when it was calm (s)": longest_within(idle, windows),
        },
        unjudged=queueing.unjudged,
    )


def _counted(fences: FenceCounts, queueing: Queueing, values: ValueCounts) -> dict[str, Any]:
    return {
        "acts under a baton": fences.acts,
        "acts refused to who had slept": fences.refused_asleep,
        "children that left their parent's hold alone": fences.forks,
        "holders told that it is lost": fences.told_lost,
        "grants heard of out of order": fences.out_of_order,
        "grants judged by the order of asking": queueing.in_order,
        "overtaken there by at most (s)": queueing.overtaken_seconds,
        "wishes not granted in time": queueing.denied,
        "at the end all were served after (s)": queueing.slowest_served,
        "values handed on": values.followed,
        "batons made anew": values.made_anew,
        "of them with an older value": values.forgotten,
    }


def _rate(turns: list[HeldTurn], spans: list[Spell]) -> float:
    seconds = sum(span.stop - span.start for span in spans) / SECOND
    count = sum(span.start <= turn.granted <= span.stop for turn in turns for span in spans)
    return round(count / seconds, 1) if seconds else 0.0
