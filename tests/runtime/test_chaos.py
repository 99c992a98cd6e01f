"""Nodes of a real cluster are killed under load, and no promise is broken."""

from pathlib import Path

import pytest

import chaos_runs


def survives(folder: Path, *options: str, timeout: float) -> None:
    code, result, said = chaos_runs.run("fifo_chaos.py", folder, *options, timeout=timeout)
    assert code == 0, f"{said}\n{result}"
    judged = result["judgement"]
    assert result["broken"] == []
    assert (judged["lost"], judged["revived"], judged["doubled"]) == (0, 0, 0)
    assert judged["put"] > 0
    assert sum(result["injuries"].values()) >= 3


def test_nothing_is_lost_while_nodes_are_killed_for_10_seconds(tmp_path: Path) -> None:
    survives(
        tmp_path,
        *("--nodes", "3", "--clients", "8", "--processes", "1"),
        *("--seconds", "10", "--every", "3", "--inject", "kill"),
        timeout=100,
    )


@pytest.mark.soak
def test_nothing_is_lost_in_two_minutes_of_all_that_can_be_done_to_a_cluster(
    tmp_path: Path,
) -> None:
    """Kinds that need root and Linux are left out where they can't be done."""
    survives(
        tmp_path,
        *("--nodes", "5", "--clients", "32", "--processes", "2", "--seconds", "120"),
        timeout=600,
    )
