"""Free elements in runs (`seap/runs.py`): the same as a sorted list, whatever comes and goes."""

from random import Random

import pytest

from snowmelt.core.interval import Interval, merged
from snowmelt.protocols.seap import runs
from snowmelt.protocols.seap.runs import RUN_MIN, Run, Runs
from snowmelt.protocols.select.elements import Element


@pytest.mark.parametrize("most", [0, 5, 1_024])
@pytest.mark.parametrize("keys", [1 << 62, 3])
def test_a_row_of_runs_is_a_sorted_list(most: int, keys: int, monkeypatch) -> None:
    monkeypatch.setattr(runs, "RUNS_MAX", most)
    dice, row, there, position = Random(most + keys), Runs(), list[Element](), 0
    for _ in range(150):
        some = [dice.randrange(-keys, keys) for _ in range(dice.choice((1, 2, RUN_MIN, 30)))]
        some = sorted(some) if dice.random() < 0.5 else some
        new = [Element(key, position + at) for at, key in enumerate(some)]
        row.add(new[0] if len(new) == 1 else Run(some, position))
        there, position = sorted([*there, *new]), position + len(new) + dice.randrange(2)
        assert len(row) == len(there)
        at, first, last = sorted(dice.randrange(len(there)) for _ in range(3))
        assert row[at] == there[at]
        assert row[:first] == there[:first]
        assert row.rank(Element(there[at].priority, there[at].id + 1)) == at + 1
        assert sorted(row.among(there[first], there[last])) == there[first:last]
        count = dice.choice((0, 1, 3, 30, 8 * (4 + len(row._runs))))
        taken = [Interval(one.id, one.id + 1) for one in there[:count]]
        assert row.take(count) == merged(taken)
        there = there[count:]
    assert list(row) == there
