"""A stream is killed at random moments and goes on from its checkpoint: every item comes out once.

The program runs on a real cluster and kills real processes; it counts what came out by item, and
after each kill looks whether the checkpoint and both queues fit together.
"""

from pathlib import Path
from typing import Any

import pytest

import chaos_runs
import warm
from wide import wide


def survives(folder: Path, *options: str, timeout: float) -> dict[str, Any]:
    words = ("--nodes", "3", *options)
    result = chaos_runs.survives("spark", folder, *words, timeout=timeout)
    counted = result["counted"]
    assert counted["items that came out"] == counted["items put"] > 0
    assert counted["micro-batches between the kills"] > 0
    return result


@pytest.mark.timeout(300)
@pytest.mark.parametrize("minutes", ["0.01", *wide("0.3")], ids=["a-round", "rounds"])
def test_a_stream_that_is_killed_has_every_item_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", warm.PRELOADED)
    options = ("--minutes", minutes, "--every", "0", "--set", "after=1.5", "--seed", "9")
    result = survives(tmp_path, *options, timeout=240)
    assert result["counted"]["rounds"] >= 1


@pytest.mark.soak
def test_a_stream_killed_for_15_minutes_has_every_item_once(tmp_path: Path) -> None:
    result = survives(tmp_path, "--minutes", "15", "--every", "0", timeout=3600)
    assert result["counted"]["rounds"] >= 25
    assert sum(name.startswith("found:") for name in result["counted"]) > 1


@pytest.mark.soak
def test_a_stream_whose_nodes_and_leaders_are_killed_too_has_every_item_once(
    tmp_path: Path,
) -> None:
    result = survives(tmp_path, "--minutes", "10", "--every", "10", timeout=3600)
    assert result["faults"]["kill node"] > 0
    assert result["faults"]["kill leader of in"] + result["faults"]["kill leader of out"] > 0


@pytest.mark.soak
def test_a_stream_that_is_shown_older_checkpoints_has_every_item_once(tmp_path: Path) -> None:
    options = ("--minutes", "10", "--every", "0", "--set", "older=true")
    counted = survives(tmp_path, *options, timeout=3600)["counted"]
    assert counted["checkpoint put back"] > 0
    assert counted["two programs at once"] > 0
