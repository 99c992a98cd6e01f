"""A history judged in parts has the verdicts and examples of the whole."""

from random import Random

import pytest
from mixed import mixed

from snowmelt_world.check import PROPERTIES, History, Invalid, Undecided, check_history
from snowmelt_world.check.cuts import VALUES
from snowmelt_world.check.parts import Facts, Part, Plan, Verdicts, check_passages, decoded

SEEDS = range(600)


def in_parts(history: History, properties, parts: int, chance: Random):
    """Judged as whoever has several machines does it; here all are one."""
    lines = list(history.lines())
    stretches, at = [], 0
    while at < len(lines):
        size = chance.randint(1, len(lines))
        stretches.append((at, lines[at : at + size]))
        at += size
    facts = Facts(0)
    for start, some in stretches:
        facts += Facts.of(start, some)
    plan = Plan.of(properties, parts, facts)
    numbered = [
        [(start + place, line, decoded(line)) for place, line in enumerate(some)]
        for start, some in stretches
    ]
    plan = plan.with_given(pair for some in numbered for pair in plan.ranked(some).items())
    rows = {}
    for some in reversed(numbered):
        for number, line, one in some:
            for cut in plan.cuts:
                for part, place, told in plan.routed(cut, one, line):
                    rows.setdefault((cut.name, part), []).append((number, place, told))
    judged = [
        (cut, Part(plan, cut, part, rows[name, part]))
        for cut in plan.cuts
        for name, part in rows
        if name == cut.name
    ]
    found = [one for _, part in judged for one in part.found()]
    columns = [part.passages() for cut, part in judged if cut is VALUES]
    order = check_passages([b"".join(one) for one in zip(*columns, strict=True)], facts.lost) \
        if columns and "fifo" in properties else None  # fmt: skip
    return Verdicts(plan, facts, found, order).told(history.operations.__getitem__)


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_parts_judge_as_the_whole_does(parts):
    chance = Random(parts)
    for seed in SEEDS[parts :: 3 if parts > 1 else 10]:
        history = mixed(seed)
        assert in_parts(history, list(PROPERTIES), parts, chance) == check_history(
            history, PROPERTIES
        ), seed


def test_the_histories_are_broken_in_every_way():
    verdicts = [one for seed in SEEDS[::3] for one in check_history(mixed(seed), PROPERTIES)]
    verdicts += [one for seed in SEEDS[1::3] for one in check_history(mixed(seed), PROPERTIES)]
    verdicts += [one for seed in SEEDS[2::3] for one in check_history(mixed(seed), PROPERTIES)]
    invalid = {one.property for one in verdicts if isinstance(one, Invalid)}
    assert invalid == set(PROPERTIES)
    undecided = {one.property for one in verdicts if isinstance(one, Undecided)}
    assert undecided >= {"conservation", "fifo", "fifo_leased", "fifo_witness", "heap"}


def test_facts_add_up_to_those_of_the_whole():
    for seed in SEEDS[:60]:
        lines = list(mixed(seed).lines())
        half = len(lines) // 2
        whole, parts = Facts.of(0, lines), Facts.of(0, lines[:half]) + Facts.of(half, lines[half:])
        assert (whole.lines, whole.operations, whole.ordered) == (
            parts.lines,
            parts.operations,
            parts.ordered,
        )
        assert (whole.setting, whole.lost) == (parts.setting, parts.lost)


def test_the_first_bad_line_is_told_by_its_number_in_the_whole():
    good = next(iter(mixed(0).lines()))
    facts = Facts.of(0, [good, b"\n"]) + Facts.of(2, [good, b"{}", b"{}"]) + Facts.of(5, [b"x"])
    assert facts.bad is not None
    line, why = facts.bad
    assert line == 4
    assert "required field" in why
