"""A result as a person reads it."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.baton_chaos_parts.main import Result


def show(result: "Result") -> None:
    judged = result.judgement
    fences, queueing, values = judged.fences, judged.queueing, judged.values
    table = Table(title=f"{result.nodes} nodes, {result.workers} workers, {result.seconds:g} s")
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = dict(result.done)
    rows |= {
        "grants": judged.grants,
        "grants a second, in storm": judged.grants_per_second_in_storm,
        "grants a second, in calm": judged.grants_per_second_in_calm,
        "acts under a baton": fences.acts,
        "acts refused to who had slept": fences.refused_asleep,
        "children that left their parent's hold alone": fences.forks,
        "holders told that it is lost": fences.told_lost,
        "grants heard of out of order": fences.out_of_order,
        "grants judged by the order of asking": queueing.in_order,
        "overtaken there by at most (s)": queueing.overtaken_seconds,
        "longest wish (s)": queueing.longest_wish,
        "wishes not granted in time": queueing.denied,
        "at the end all were served after (s)": queueing.slowest_served,
        "values handed on": values.followed,
        "batons made anew": values.made_anew,
        "of them with an older value": values.forgotten,
        "longest that nobody held what was wanted (s)": judged.longest_pause.seconds,
        "the last fault before": judged.longest_pause.after,
        "the same when it was calm (s)": judged.longest_pause_in_calm,
    }
    for one in judged.recoveries:
        rows[f"{one.fault}: next grant, median and longest of {one.count} (s)"] = (
            f"{one.median:.2f}, {one.longest:.2f}"
        )
        if one.alone:
            rows[f"{one.fault}: longest of {one.alone} with no other fault (s)"] = one.longest_alone
    rows["all nodes up after a storm (s)"] = ", ".join(map(str, result.up_seconds))
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for text in queueing.unjudged:
        console.print(f"not judged, the machine was starved: {text}", markup=False)
    for promise in result.broken:
        console.print(f"broken: {promise}", markup=False, style="red")
