"""What a person sees of an attack: a table, and a drawing of what was sampled."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from snowmelt_world.attack import account, honest
from snowmelt_world.attack.judging import Phase
from snowmelt_world.attack.run import AttackResult
from snowmelt_world.attack.watching import Sample

WIDTH: Final = 900
HEIGHT: Final = 150
LEFT: Final = 70
GAP: Final = 40
COLOURS: Final = ("#1f6feb", "#bf5700", "#2e7d32", "#8e24aa", "#546e7a")

Line = list[tuple[float, float]]


def show(result: AttackResult) -> None:
    """The verdict, each property, and what was measured."""
    table = Table(title=f"attack, seed {result.seed}; processors shared by {result.shares}")
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = {
        "verdict": result.verdict,
        **result.properties,
        **{f"inputs: {kind}": f"{count:,}" for kind, count in result.inputs.items()},
        **{f"honest items/s: {kind}": rate for kind, rate in result.rates.items()},
        **{f"longest answer (s): {kind}": took for kind, took in result.longest_probe_s.items()},
        **{f"memory of {node} (MiB)": most for node, most in result.memory_mib.items()},
        **{f"disk of {node} (MiB)": most for node, most in result.disk_mib.items()},
        **{f"longest turn of {node} (ms)": most for node, most in result.turn_ms.items()},
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for text in result.unjudged:
        console.print(f"not judged: {text}", markup=False)
    for text in result.broken:
        console.print(f"broken: {text}", markup=False, style="red")


def plot(folder: Path, file: Path) -> None:
    """Draws memory, disk, the longest turn and honest items a second over time, as SVG."""
    content = (folder / "samples.json").read_bytes()
    phases, samples = msgspec.json.decode(content, type=tuple[list[Phase], list[Sample]])
    lines = account.read(folder / honest.JOURNAL)
    begin, end = phases[0].begin, phases[-1].end
    done: dict[int, int] = {}
    for one in lines:
        if one.did is account.Did.ACKED:
            done[int(one.at - begin)] = done.get(int(one.at - begin), 0) + 1
    honest_line = [(float(at), float(done.get(at, 0))) for at in range(int(end - begin))]
    charts: list[tuple[str, dict[str, Line]]] = [
        ("memory, MiB", _by_node(samples, begin, lambda one: (one.memory or 0) / (1 << 20))),
        ("disk, MiB", _by_node(samples, begin, lambda one: (one.disk or 0) / (1 << 20))),
        ("longest turn, ms", _by_node(samples, begin, lambda one: 1_000 * (one.turn or 0.0))),
        ("honest items/s", {"all": honest_line}),
    ]
    height = len(charts) * (HEIGHT + GAP) + GAP
    box = f"0 0 {WIDTH + LEFT + 20} {height}"
    font = 'font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {font}>']
    for number, (title, curves) in enumerate(charts):
        top = GAP + number * (HEIGHT + GAP)
        parts += _chart(title, curves, phases, end - begin, top)
    file.write_text("\n".join([*parts, "</svg>\n"]))


def _by_node(
    samples: Sequence[Sample], begin: float, value: Callable[[Sample], float]
) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for one in samples:
        if one.lives:
            found.setdefault(one.node, []).append((one.at - begin, value(one)))
    return dict(sorted(found.items()))


def _chart(
    title: str, curves: dict[str, Line], phases: Sequence[Phase], seconds: float, top: int
) -> list[str]:
    most = max((value for curve in curves.values() for _, value in curve), default=0.0) or 1.0
    bottom = top + HEIGHT

    def x(at: float) -> float:
        return LEFT + WIDTH * min(max(at, 0.0), seconds) / seconds

    parts = [f'<text x="{LEFT}" y="{top - 6}">{title}</text>']
    parts.append(f'<text x="4" y="{top + 10}">{most:,.0f}</text><text x="4" y="{bottom}">0</text>')
    for phase in phases:
        at = x(phase.begin - phases[0].begin)
        parts.append(f'<path d="M{at:.1f} {top}V{bottom}" stroke="#ccc"/>')
        parts.append(f'<text x="{at + 3:.1f}" y="{bottom + 14}">{phase.kind or "alone"}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{x(at):.1f},{bottom - HEIGHT * value / most:.1f}" for at, value in curve
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        at = LEFT + 160 + 60 * number
        parts.append(f'<text x="{at}" y="{top - 6}" fill="{colour}">{name}</text>')
    return parts
