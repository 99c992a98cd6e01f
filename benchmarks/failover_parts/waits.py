"""How long puts and gets took, over the time of a run, and a picture of it."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
from benchmarks.chaos.well import BACK
from benchmarks.failover_parts.striking import Blow
from matplotlib.figure import Figure

from snowmelt_lab.drawing import INK, save
from snowmelt_world.check import Ended, History, Kind, Operation

SECOND = 1_000_000_000
HUES = {"kill": "#4a5058", "stop": "#c3c8cf", "cut": "#d97706"}
PUT, GET = "#0b6fb8", "#b3381d"
BAR = 5.0


class Wait(msgspec.Struct, frozen=True):
    """One call, with all its tries: a put, or a get that brought something."""

    kind: str
    called: int
    seconds: float


def waits_of(folder: Path) -> list[Wait]:
    """Of all that was recorded.

    A get of unknown outcome, or that failed, goes on with the same client's next; one that found
    the queue empty ends there, and tells nothing.
    """
    waits: list[Wait] = []
    for file in sorted(folder.glob("history-*.jsonl")):
        with file.open("rb") as lines:
            recorded = list(History.read(lines))
        begun: dict[str, int] = {}
        for one in sorted(recorded, key=_returned):
            if one.kind is Kind.PUT and one.ended is Ended.SUCCEEDED:
                waits.append(Wait("put", one.called, (_returned(one) - one.called) / SECOND))
            if one.kind is not Kind.GET:
                continue
            since = begun.setdefault(one.process, one.called)
            if one.ended is Ended.SUCCEEDED:
                del begun[one.process]
                if one.values:
                    waits.append(Wait("get", since, (_returned(one) - since) / SECOND))
    return waits


def longest(waits: Sequence[Wait], kind: str) -> float:
    return round(max((one.seconds for one in waits if one.kind == kind), default=0.0), 2)


def untouched(waits: Sequence[Wait], blows: Sequence[Blow]) -> list[Wait]:
    """Those that met nothing that was done, nor the time in which its victim comes back."""
    return [
        one
        for one in waits
        if all(
            one.called > blow.until + BACK or one.called + one.seconds * SECOND < blow.since
            for blow in blows
        )
    ]


def draw(waits: Sequence[Wait], blows: Sequence[Blow], path: Path) -> None:
    """The longest put and get that began in each second, and what was done meanwhile."""
    start = min(one.called for one in waits)
    figure = Figure(figsize=(40 / 3, 6), layout="constrained")
    axes = figure.subplots()
    tops: dict[str, dict[int, float]] = {"put": defaultdict(float), "get": defaultdict(float)}
    for one in waits:
        second = (one.called - start) // SECOND
        tops[one.kind][second] = max(tops[one.kind][second], one.seconds)
    height = max(BAR * 1.1, max(one.seconds for one in waits) * 1.1)
    for blow in blows:
        since, until = (blow.since - start) / SECOND, (blow.until - start) / SECOND
        hue = HUES[blow.kind.partition(" ")[0]]
        axes.axvspan(since, until, ymin=0, color=hue, alpha=0.35, linewidth=0)
        told = f"{blow.kind} {blow.whose}"
        axes.text(since, height * 0.98, told, rotation=90, fontsize=7, color=INK, va="top")
    for kind, hue in (("put", PUT), ("get", GET)):
        points = sorted(tops[kind].items())
        xs, ys = [at for at, _ in points], [top for _, top in points]
        axes.vlines(xs, 0, ys, color=hue, linewidth=1.5, label=f"longest {kind}", alpha=0.8)
    axes.axhline(BAR, color=INK, linestyle=":", linewidth=1)
    axes.set_ylim(0, height)
    axes.set_xlabel("seconds of the storm, when the call began")
    axes.set_ylabel("seconds that it took")
    put, get = longest(waits, "put"), longest(waits, "get")
    axes.set_title(f"Longest put {put} s, longest get {get} s", color=INK, loc="left")
    axes.legend(loc="center right")
    save(figure, path)


def _returned(one: Operation) -> int:
    return one.called if one.returned is None else one.returned
