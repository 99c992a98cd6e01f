"""What a trial finds on executors before the first batch, and the sentences it makes of it."""

import json
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from snowmelt.cli.local import free_port
from snowmelt.core.errors import BadOption, CallerError, Unreachable
from snowmelt.core.names import Address
from snowmelt.spark import trial
from snowmelt.spark.trial import TrialResult, check_executors, check_planner


def test_executors_that_have_all_are_passed_and_nothing_is_left_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    check_planner(spark)
    folder = tmp_path / "new" / "one"
    assert check_executors(spark, folders=[folder]) == {}
    assert list(folder.iterdir()) == []


def test_a_node_that_executors_do_not_reach_is_named(spark: SparkSession) -> None:
    port = free_port()
    with pytest.raises(
        Unreachable, match=rf"can't reach the node at 127\.0\.0\.1:{port}: .*--list"
    ):
        check_executors(spark, [Address("127.0.0.1", port)])


def test_a_folder_that_can_not_be_written_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match=r"folder is '.*/file/below'; allowed: one that can be"):
        check_executors(spark, folders=[tmp_path / "file" / "below"])


def test_a_task_tells_which_files_of_the_driver_are_not_there(tmp_path: Path) -> None:
    there = tmp_path / "mark"
    there.touch()
    look = trial._task([], [str(there), str(tmp_path / "other")], 1.0)
    found = msgspec.convert(json.loads(look(0)), TrialResult)
    assert found.unseen == [str(tmp_path / "other")]
    assert (found.missing, found.versions) == ("", trial._versions())


@pytest.mark.parametrize(
    ("missing", "version", "complaint"),
    [
        ("No module named 'lmdb'", "0", "on w3, with /opt/python, lacks what it needs: No module"),
        ("", "0.0.9", r"has snowmelt 0\.0\.9, the driver has"),
    ],
)
def test_what_an_executor_lacks_or_has_otherwise_is_told_with_the_cure(
    missing: str, version: str, complaint: str
) -> None:
    versions = trial._versions() | {"snowmelt": version}
    with pytest.raises(CallerError, match=f"{complaint}.*PYSPARK_PYTHON"):
        trial._check(TrialResult("w3", "/opt/python", versions, missing, {}, []))


def test_a_cluster_that_runs_no_task_is_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "PATIENCE", 0.0)
    with pytest.raises(Exception, match="no executor ran a small task within 0 s: the cluster has"):
        check_executors(spark)
