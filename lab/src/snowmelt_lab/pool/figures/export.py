"""Everything about the figures in one folder: pictures, a table for each, and one summary."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.output import write_csv
from snowmelt_lab.pool.figures.picture import draw
from snowmelt_lab.pool.figures.plan import Figure
from snowmelt_lab.pool.figures.results import Result, Results
from snowmelt_lab.pool.runs import options_row

FORMS: Final = (".png", ".svg")
HEAD: Final = (
    *("panel", "measure", "curve", "x", "simulated", "ci95", "modelled", "difference"),
    *("objects", "converged"),
)


def export(figures: Sequence[Figure], results: Results, folder: Path, **about: Any) -> list[Result]:
    """Writes `figure-N.png`, `.svg` and `.csv`, and `summary.json`, which has `about` too."""
    everything: list[Result] = []
    for figure in figures:
        found = list(results.of(figure))
        everything += found
        base = folder / f"figure-{figure.number}"
        rows = ([getattr(one, name) for name in HEAD] for one in found)
        write_csv(base.with_suffix(".csv"), HEAD, rows)
        draw(figure, results, [base.with_suffix(form) for form in FORMS])
    _write_summary(folder / "summary.json", everything, about)
    return everything


def _write_summary(path: Path, results: Sequence[Result], about: dict[str, Any]) -> None:
    points = [{**msgspec.to_builtins(one), "options": options_row(one.options)} for one in results]
    try:
        path.write_text(json.dumps({**about, "points": points}, indent=1) + "\n")
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise BadOption("--out", str(path.parent), allowed) from error
