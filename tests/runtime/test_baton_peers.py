"""The comparison of locks judges their logs as it should, and runs with real nodes."""

import doctest
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
MILLION = 1_000_000


@pytest.fixture
def holds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return import_module("benchmarks.peers.baton.holds")


def test_the_examples_of_the_reckoning_hold(holds: ModuleType) -> None:
    failed, tried = doctest.testmod(holds, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)


def test_two_holders_at_once_are_found_in_logs_of_different_processes(holds: ModuleType) -> None:
    left = [holds.Held(0, 10, 0), holds.Held(20, 30, 0)]
    right = [holds.Held(10, 20, 1), holds.Held(29, 40, 1)]
    assert holds.in_order([left, right[:1]]) == sorted([*left, right[0]])
    with pytest.raises(holds.TurnFailed, match="two had the lock at once, 1 times in 4 grants"):
        holds.in_order([left, right])


def test_a_lock_that_goes_back_to_its_holder_is_not_called_quick(holds: ModuleType) -> None:
    """Three grants in a row, each a moment after the last; then somebody else's."""
    again = [holds.Held(at, at + MILLION - 1000, 0) for at in range(0, 3 * MILLION, MILLION)]
    other = [holds.Held(3 * MILLION, 4 * MILLION, 1)]
    sent = holds.Messages(clients=12, servers=4)
    figures = holds.figures([*again, *other], 0, 10 * MILLION, 3, sent)
    assert figures["free_p50_us"] == 1.0
    assert figures["hand_over_p50_us"] == 2001.0
    assert (figures["turns_least"], figures["turns_most"]) == (0, 3)  # a third had none
    assert figures["messages_per_hand_over"] == 16
    assert figures["messages_per_grant"] == 4


def test_a_lock_that_never_goes_on_has_no_figures(holds: ModuleType) -> None:
    with pytest.raises(holds.TurnFailed, match="never went"):
        holds.figures([holds.Held(0, 5, 0), holds.Held(7, 9, 0)], 0, 10, 2, holds.Messages(1))


@pytest.mark.wide
def test_three_nodes_pass_the_baton_among_four_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "snowmelt", "bench", "baton", "--quick", "--json"]
    command += ["--peers", "snowmelt-3", "--only", "now-4", "--chart", str(tmp_path / "f.png")]
    command += ["--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    (row,) = json.loads(done.stdout)["rows"]
    assert row["hand_overs_per_second"] > 0
    assert row["turns_least"] > 0
    assert row["messages_per_hand_over"] >= 4  # asked, granted, given up, and that it was
