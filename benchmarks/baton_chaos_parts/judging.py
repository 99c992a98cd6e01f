"""What the journals say of the promises, and what they count beside them."""

from pathlib import Path

import msgspec
from benchmarks.baton_chaos_parts.crowd import Life
from benchmarks.baton_chaos_parts.events import Span, calms, read_events, stops, storms
from benchmarks.baton_chaos_parts.fences import Fences, judge_fences
from benchmarks.baton_chaos_parts.guard import acts
from benchmarks.baton_chaos_parts.pauses import (
    SECOND,
    Pause,
    Recovery,
    longest,
    longest_within,
    pauses,
    recoveries,
)
from benchmarks.baton_chaos_parts.queueing import Bounds, Queueing, judge_queueing, settled
from benchmarks.baton_chaos_parts.turns import NEVER, Turn, read_turns
from benchmarks.baton_chaos_parts.values import Values, judge_values
from benchmarks.chaos.starving import read_starving


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was promised and counted."""

    grants: int
    grants_per_second_in_storm: float
    grants_per_second_in_calm: float
    fences: Fences
    queueing: Queueing
    values: Values
    longest_pause: Pause
    longest_pause_in_calm: float
    """When all had settled; in seconds."""
    recoveries: list[Recovery]

    @property
    def broken(self) -> list[str]:
        """A sentence for each promise that was."""
        return [*self.fences.broken, *self.queueing.broken, *self.values.broken]


def judge(folder: Path, lives: list[Life], bounds: Bounds) -> Judgement:
    """Reads all that was written down."""
    turns = read_turns(folder, lives)
    events = read_events(folder)
    stopped = stops(events)
    quiet = calms(events)
    end = max((calm.stop for calm in quiet), default=NEVER)
    windows = settled(quiet, bounds)
    idle = pauses(turns, stopped, end)
    return Judgement(
        grants=sum(turn.granted > 0 for turn in turns),
        grants_per_second_in_storm=_rate(turns, storms(events)),
        grants_per_second_in_calm=_rate(turns, quiet),
        fences=judge_fences(turns, acts(folder), stopped),
        queueing=judge_queueing(turns, lives, windows, stopped, bounds, read_starving(folder)),
        values=judge_values(turns),
        longest_pause=longest(idle, events),
        longest_pause_in_calm=longest_within(idle, windows),
        recoveries=recoveries(turns, events),
    )


def _rate(turns: list[Turn], spans: list[Span]) -> float:
    seconds = sum(span.stop - span.start for span in spans) / SECOND
    count = sum(span.start <= turn.granted <= span.stop for turn in turns for span in spans)
    return round(count / seconds, 1) if seconds else 0.0
