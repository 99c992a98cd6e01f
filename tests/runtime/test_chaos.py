"""Nodes of a real cluster are killed under load, and no promise is broken."""

import shutil
from pathlib import Path

import pytest

import chaos_runs
from wide import wide

NEEDS_ETCD = pytest.mark.skipif(shutil.which("etcd") is None, reason="no etcd is installed")


def survives(folder: Path, *options: str, timeout: float) -> None:
    code, result, said = chaos_runs.run("fifo_chaos.py", folder, *options, timeout=timeout)
    assert code == 0, f"{said}\n{result}"
    judged = result["judgement"]
    assert result["broken"] == []
    assert (judged["lost"], judged["revived"], judged["doubled"]) == (0, 0, 0)
    assert judged["put"] > 0
    assert sum(result["injuries"].values()) >= 3


@pytest.mark.parametrize("priorities", ["1", *wide("0")], ids=["fifo", "any"])
def test_nothing_is_lost_or_passed_while_nodes_are_killed_for_10_seconds(
    tmp_path: Path, priorities: str
) -> None:
    survives(
        tmp_path,
        *("--nodes", "3", "--clients", "8", "--processes", "1", "--priorities", priorities),
        *("--seconds", "10", "--every", "3", "--inject", "kill"),
        timeout=100,
    )


@pytest.mark.soak
@pytest.mark.parametrize("priorities", ["1", "4", "0"], ids=["fifo", "four", "any"])
def test_nothing_is_lost_in_two_minutes_of_all_that_can_be_done_to_a_cluster(
    tmp_path: Path, priorities: str
) -> None:
    """Kinds that need root and Linux are left out where they can't be done."""
    survives(
        tmp_path,
        *("--nodes", "5", "--clients", "32", "--processes", "2", "--seconds", "120"),
        *("--priorities", priorities),
        timeout=600,
    )


@NEEDS_ETCD
def test_nothing_is_lost_where_etcd_decides_and_one_at_a_time_is_hurt(tmp_path: Path) -> None:
    code, result, said = chaos_runs.run(
        "etcd_storm.py",
        tmp_path,
        *("--nodes", "3", "--clients", "4", "--priorities", "4"),
        *("--seconds", "12", "--away", "3", "--rest", "1"),
        timeout=110,
    )
    assert code == 0, f"{said}\n{result}"
    judged = result["judgement"]
    assert (judged["lost"], judged["revived"], judged["doubled"]) == (0, 0, 0)
    assert judged["put"] > 0
    assert sum(result["struck"].values()) >= 2
