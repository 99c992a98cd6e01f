"""A run as a picture: what was done to whom, who held each baton, and what each worker did.

    python -m benchmarks.baton_chaos_parts.chart FOLDER FILE.png

draws a run whose folder was kept. A baton's holds stand by turns in the upper and the lower half of
its row, in the order of their fences, each from its grant to the last moment that its worker was
sure of it: where both halves are full at one time, two held it, and that is drawn in red.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from benchmarks.baton_chaos_parts.events import Deed, Span
from benchmarks.baton_chaos_parts.history import History, lane_of, overlaps, read_history
from benchmarks.baton_chaos_parts.journal import What
from benchmarks.baton_chaos_parts.turns import Turn, by_fence
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from snowmelt.core.errors import SnowmeltError
from snowmelt_lab.drawing import INK, WRONG, save
from snowmelt_lab.output import PICTURES, checked_file

SECOND: Final = 1_000_000_000
INCHES: Final = (40 / 3, 7.5)
"""1600 by 900 pixels, as the lab saves pictures."""
HUES: Final = ("#0b6fb8", "#d97706", "#7a5195", "#2e7d4f", "#b3381d", "#5f6368")
STOPPED, KILLED, CALM = "#c3c8cf", "#4a5058", "#e6f4ea"
IDLE: Final = "#f9d5d3"
HAD: Final = {"marker": "D", "markeredgecolor": "white", "markersize": 6}
STRUCK: Final = {"marker": "v", "color": INK, "markersize": 5}
REFUSED: Final = {"marker": "x", "color": WRONG, "markersize": 6, "markeredgewidth": 2}
DENIED: Final = {"marker": "|", "color": WRONG, "markersize": 11, "markeredgewidth": 2.5}
BATON_HEIGHT: Final = 4.0
"""Of a baton's row, in lanes of workers."""
NODE_HEIGHT: Final = 0.8
"""The same of a node's."""
IDLE_SECONDS: Final = 1.0
"""That nobody held a baton is not shown when it was for less."""
TOLD_SECONDS: Final = 3.0
"""For how long it was is written beside it from here on: below there is no room."""


def draw(folder: Path, path: Path) -> None:
    """Three panels over one time: the nodes, the batons, the workers."""
    history = read_history(folder)
    nodes = sorted({one.lane for one in history.outages if not one.of_worker}, key=number_of)
    workers = sorted({lane_of(turn.who) for turn in history.turns}, key=number_of)
    batons = sorted({turn.baton for turn in history.turns})
    found = by_fence(history.turns)
    holds = {baton: found.get(baton, []) for baton in batons}  # one may never have been granted
    hues = dict(zip(batons, cycle(HUES), strict=False))
    figure = Figure(figsize=INCHES, layout="constrained")
    figure.suptitle(
        finding(history, holds, len(workers)), fontsize=13, fontweight="bold", color=INK
    )
    heights = [NODE_HEIGHT * len(nodes) or 1, BATON_HEIGHT * len(holds) or 1, len(workers) or 1]
    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    for panel in (above, middle, below):
        dress(panel, history)
    draw_outages(above, history, nodes, hues)
    draw_batons(middle, history, holds, hues)
    draw_outages(below, history, workers, hues)
    draw_turns(below, history, workers, hues)
    above.set_ylabel("nodes", color=INK)
    middle.set_ylabel("batons", color=INK)
    below.set_ylabel("workers", color=INK)
    below.set_xlabel("seconds; green: it is calm, and nothing is done to anybody", color=INK)
    figure.align_ylabels()
    explain(figure)
    save(figure, path)


def finding(history: History, holds: dict[str, list[Turn]], workers: int) -> str:
    """What the picture shows, in a sentence."""
    grants = sum(map(len, holds.values()))
    twice = sum(len(overlaps(mine)) for mine in holds.values())
    verdict = f"two held one {counted(twice, 'time')}" if twice else "never two holders of one"
    worst = max((pause.seconds for pause in history.pauses), default=0.0)
    sizes = {"baton": len(holds), "worker": workers, "grant": grants}
    run = ", ".join(counted(number, what) for what, number in sizes.items())
    return f"{run}: {verdict}; {worst:.1f} s at most without a holder"


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def dress(panel: Any, history: History) -> None:
    """The axis of time, and when it was calm."""
    for calm in history.calms:
        start, stop = history.second(calm.start), history.second(calm.stop)
        panel.axvspan(start, stop, color=CALM, zorder=0, linewidth=0)
    panel.set_xlim(history.second(history.start), history.second(history.stop))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="x", color="#e4e7eb", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5, length=0)


def label(panel: Any, names: Sequence[str], height: float = 1.0) -> None:
    """One lane for each name, the first at the top."""
    panel.set_yticks([height * (one + 0.5) for one in range(len(names))], names)
    panel.set_ylim(height * max(1, len(names)), 0)


# --- nodes and workers ----------------------------------------------------------------------------


def draw_outages(panel: Any, history: History, lanes: list[str], hues: dict[str, str]) -> None:
    """Who was stopped and who was dead, and from where a baton was struck."""
    label(panel, lanes)
    for outage in history.outages:
        if outage.lane not in lanes:
            continue
        row = lanes.index(outage.lane)
        killed = outage.deed is Deed.KILLED
        bars(panel, history, [outage.span], (row + 0.06, 0.88), KILLED if killed else STOPPED)
        for baton in outage.batons:
            marks(panel, history, [outage.span.start], row + 0.5, HAD | {"color": hues[baton]})


def draw_turns(panel: Any, history: History, lanes: list[str], hues: dict[str, str]) -> None:
    """What each worker waits for, and what it holds."""
    for baton, hue in hues.items():
        for row, lane in enumerate(lanes):
            mine = [one for one in history.turns if one.baton == baton and lane_of(one.who) == lane]
            waits = [Span(one.asked, one.waited_until) for one in mine]
            held = [one for one in mine if one.granted]
            bars(panel, history, waits, (row + 0.44, 0.12), hue, alpha=0.5)
            bars(panel, history, map(sure, held), (row + 0.18, 0.64), hue, edge=True)
            bars(panel, history, map(unsure, held), (row + 0.18, 0.64), hue, alpha=0.35)
    for row, lane in enumerate(lanes):
        mine = [turn for turn in history.turns if lane_of(turn.who) == lane]
        denied = [turn.ended for turn in mine if turn.end is What.DENIED]
        marks(panel, history, denied, row + 0.5, DENIED)
        marks(panel, history, refused(mine), row + 0.5, REFUSED)


# --- batons ---------------------------------------------------------------------------------------


def draw_batons(
    panel: Any, history: History, holds: dict[str, list[Turn]], hues: dict[str, str]
) -> None:
    """Who held each, one after the other, and when nobody did."""
    label(panel, list(hues), BATON_HEIGHT)
    panel.set_ylim(BATON_HEIGHT * max(1, len(hues)), -0.2)
    for one, (baton, hue) in enumerate(hues.items()):
        top = BATON_HEIGHT * one + 0.45
        half = (BATON_HEIGHT - 0.65) / 2
        draw_idle(panel, history, baton, (top, 2 * half))
        for upper in (True, False):
            mine = holds[baton][0 if upper else 1 :: 2]
            place = (top if upper else top + half, half)
            edge = (top - 0.14 if upper else top + 2 * half, 0.14)
            bars(panel, history, map(sure, mine), place, hue, edge=True)
            bars(panel, history, map(unsure, mine), edge, hue, alpha=0.35)
            marks(panel, history, refused(mine), edge[0] + 0.07, REFUSED)
        found = overlaps(holds[baton])
        bars(panel, history, found, (top - 0.2, 2 * half + 0.4), WRONG, edge=True)
        struck = [one.span.start for one in history.outages if baton in one.batons]
        marks(panel, history, struck, top - 0.22, STRUCK)


def draw_idle(panel: Any, history: History, baton: str, place: tuple[float, float]) -> None:
    """When nobody held it, though somebody wanted it; who is stopped holds nothing."""
    for pause in history.pauses:
        if pause.baton != baton or pause.seconds < IDLE_SECONDS:
            continue
        stop = pause.at + round(pause.seconds * SECOND)
        bars(panel, history, [Span(pause.at, stop)], place, IDLE)
        if pause.seconds >= TOLD_SECONDS:
            middle = history.second((pause.at + stop) // 2), place[0] + place[1] / 2
            text = f"{pause.seconds:.1f} s"
            panel.text(*middle, text, ha="center", va="center", fontsize=8.5, color=WRONG)


def sure(hold: Turn) -> Span:
    """Until the last moment at which its worker asked whether it holds, and was told so."""
    return Span(hold.granted, max([hold.granted, *hold.believed]))


def unsure(hold: Turn) -> Span:
    """From then until it gave it up, or learnt that it had lost it."""
    return Span(sure(hold).stop, hold.held_until)


def refused(turns: Iterable[Turn]) -> list[int]:
    """When the guard took an act of theirs for too old."""
    return [refusal.at for turn in turns for refusal in turn.refusals]


# --- the hand -------------------------------------------------------------------------------------


def bars(
    panel: Any,
    history: History,
    spans: Iterable[Span],
    place: tuple[float, float],
    colour: str,
    *,
    alpha: float = 1.0,
    edge: bool = False,
) -> None:
    """One after the other at one height; with an edge, none is too short to be seen."""
    seen = [span for span in spans if span.meets(history.start, history.stop)]
    starts = [history.second(span.start) for span in seen]
    ranges = [
        (start, history.second(span.stop) - start) for start, span in zip(starts, seen, strict=True)
    ]
    style = {"linewidth": 0.6, "edgecolor": colour} if edge else {"linewidth": 0}
    panel.broken_barh(ranges, place, facecolor=colour, alpha=alpha, zorder=3, **style)


def marks(
    panel: Any, history: History, moments: Iterable[int], height: float, style: dict[str, Any]
) -> None:
    """A mark at each moment, all at one height and above all bars."""
    at = [history.second(moment) for moment in moments]
    panel.plot(at, [height] * len(at), linestyle="", zorder=5, **style)


def number_of(lane: str) -> tuple[int, str]:
    """By which a lane is put in order: the number at its end."""
    digits = lane[len(lane.rstrip("0123456789")) :]
    return int(digits or 0), lane


def explain(figure: Figure) -> None:
    """What the marks mean."""
    meanings = [
        Patch(color=HUES[0], label="holds, and is sure"),
        Patch(color=HUES[0], alpha=0.35, label="does not know yet that it is over; waits"),
        Patch(color=IDLE, label="nobody holds what is wanted"),
        Patch(color=STOPPED, label="stopped"),
        Patch(color=KILLED, label="killed"),
        Line2D([], [], linestyle="", label="had this baton", color=HUES[0], **HAD),
        Line2D([], [], linestyle="", label="its holder or node is struck", **STRUCK),
        Line2D([], [], linestyle="", label="refused by the guard", **REFUSED),
        Line2D([], [], linestyle="", label="not granted in time", **DENIED),
        Patch(color=WRONG, label="two are sure"),
    ]
    figure.legend(
        handles=meanings, loc="outside lower center", ncols=5, fontsize=8.5, frameon=False
    )


def main() -> int:
    if len(sys.argv) != 3:
        print((__doc__ or "").split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    folder, path = map(Path, sys.argv[1:])
    try:
        checked_file("FILE", path, PICTURES)
        draw(folder, path)
    except SnowmeltError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
