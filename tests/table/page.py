"""Writes what came of all cells: `python -m table.page RESULT…`.

`docs/research/reliability.json` is what the run said, cell by cell; `reliability.md` beside it is
made of that.
A run of some columns replaces the cells of those.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from table.columns import COLUMNS
from table.faces import KINDS, ROWS, Row
from table.known import known
from table.recipes import RECIPES

DOCS: Final = Path(__file__).parents[2] / "docs" / "research"
RESULT: Final = DOCS / "reliability.json"
PAGE: Final = DOCS / "reliability.md"
SIGNS: Final = {"covered": "●", "reason": "·", "lacks": "○", "known": "✗"}

HEAD: Final = """# Calls and disturbances

Every public call of every kind is a row, and what may happen round it a column. A cell is the one
in the middle of the other: a short program on real nodes, with an exact account at its end. The
call ends in time, with its answer or an error of ours. What was told as put is there once, what was
acknowledged never comes again, and the next call works.

A cell counts as **covered** only when a planted wrong behaviour, reached through that very call,
makes it fail. So a covered cell is tried, and its account is known to see what goes wrong.

`make table` runs all cells and writes this page; `make test` runs a part of them.

| sign | the cell |
|---|---|
| ● | passes, and fails with its plant |
| · | does not apply, for the reason below |
| ○ | is not covered; what it lacks is said below |
| ✗ | fails today; what is missing is said below |
"""


def state(row: Row, column: str, result: dict[str, dict[str, str]]) -> tuple[str, str]:
    """Which sign a cell has, and the words to it."""
    made = COLUMNS[column]
    if row not in RECIPES:
        return "lacks", "it has no recipe"
    if reason := made.lacks(row):
        return "reason", reason
    if reason := made.untried(row):
        return "lacks", reason
    if reason := known(str(row), column):
        return "known", reason
    said = result.get(str(row), {}).get(column)
    if said:
        return "covered", said
    quiet = "quiet" in RECIPES[row].words
    why = "nobody sees whether it did anything" if quiet else "no plant makes it fail"
    return "lacks", why


Cells = dict[tuple[Row, str], tuple[str, str]]


def cells_of(result: dict[str, dict[str, str]]) -> Cells:
    """All of them."""
    return {(row, column): state(row, column, result) for row in ROWS for column in COLUMNS}


def page(cells: Cells) -> str:
    """The whole page."""
    parts = [HEAD, summary(cells), "## The columns\n"]
    parts += [f"- **{one.name}.** {one.says}" for one in COLUMNS.values()]
    parts += ["\n## All cells\n", *(table(kind, cells) for kind in KINDS)]
    parts += [words("Does not apply", "reason", cells), words("Not covered", "lacks", cells)]
    parts += [words("Fails today", "known", cells)]
    return "\n".join(parts) + "\n"


def summary(cells: Cells) -> str:
    """Kinds and columns, with how many of the cells that apply are covered."""
    lines = ["\n## Kinds\n", row_of(["", *KINDS]), row_of(["---"] * (len(KINDS) + 1))]
    lines += [
        row_of([column, *(share(cells, kind, column) for kind in KINDS)]) for column in COLUMNS
    ]
    counted = Counter(sign for sign, _ in cells.values())
    good = counted["covered"] + counted["reason"]
    lines.append(
        f"\nOf {len(cells)} cells {counted['covered']} are covered and {counted['reason']} do not "
        f"apply: {100 * good / len(cells):.1f} of a hundred. {counted['lacks']} are not covered, "
        f"{counted['known']} fail.\n"
    )
    return "\n".join(lines)


def share(cells: Cells, kind: str, column: str) -> str:
    """As `12/14`, with a sign."""
    counted = Counter(sign for (row, name), (sign, _) in cells.items()
                      if row.kind == kind and name == column)  # fmt: skip
    asked = sum(counted.values()) - counted["reason"]
    if not asked:
        return "·"
    sign = "✗" if counted["known"] else "○" if counted["lacks"] else "●"
    return f"{sign} {counted['covered']}/{asked}"


def table(kind: str, cells: Cells) -> str:
    """The rows of a kind, a sign a cell."""
    numbers = [str(number) for number in range(1, len(COLUMNS) + 1)]
    lines = [f"### {kind}\n"]
    if kind == next(iter(KINDS)):
        names = ", ".join(f"{number} {name}" for number, name in zip(numbers, COLUMNS, strict=True))
        lines.append(f"The columns: {names}.\n")
    lines += [row_of(["", *numbers]), row_of(["---"] * (len(numbers) + 1))]
    for row in ROWS:
        if row.kind == kind:
            signs = [SIGNS[cells[row, column][0]] for column in COLUMNS]
            lines.append(row_of([f"`{row.call}`", *signs]))
    return "\n".join(lines) + "\n"


def words(title: str, sign: str, cells: Cells) -> str:
    """The words to all cells of one sign, those of the same words together."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for (row, column), (one, why) in cells.items():
        if one == sign:
            found[column, why].append(row)
    lines = [f"## {title}\n"]
    for (column, why), rows in sorted(found.items()):
        lines.append(f"- **{column}**: {why}: {listed(rows)}.")
    return "\n".join(lines if found else [*lines, "Nothing."]) + "\n"


def listed(rows: Iterable[Row]) -> str:
    """By kind."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        kinds[row.kind].append(f"`{row.call}`")
    return "; ".join(
        f"{kind} (all)" if len(calls) == len([1 for row in ROWS if row.kind == kind])
        else f"{kind} {', '.join(calls)}"
        for kind, calls in kinds.items()
    )  # fmt: skip


def row_of(fields: list[str]) -> str:
    return "| " + " | ".join(fields) + " |"


def main(files: list[str]) -> None:
    """Writes both, of what runs have said; other cells are as they were."""
    before = json.loads(RESULT.read_text())
    result: dict[str, dict[str, str]] = {str(row): before.get(str(row), {}) for row in ROWS}
    for file in files:
        for one in map(json.loads, Path(file).read_text().splitlines()):
            result[one["row"]].pop(one["column"], None)
            if one["covered"] and not one["fails"]:
                result[one["row"]][one["column"]] = one["covered"].partition(":")[0]
    text = json.dumps(result, indent=0, sort_keys=True, ensure_ascii=False)
    RESULT.write_text(text + "\n")
    PAGE.write_text(page(cells_of(result)))


if __name__ == "__main__":
    main(sys.argv[1:])
