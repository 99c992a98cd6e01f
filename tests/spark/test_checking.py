"""Histories judged on Spark: the same verdicts, counts and examples as by one machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snowmelt.core.errors import BadHistory, BadOption
from snowmelt_world import check_on_spark
from snowmelt_world.check import PROPERTIES, History, check_history
from wide import wide

sys.path.append(str(Path(__file__).parent.parent / "check"))
from mixed import mixed

MANY = 1_000
SPLIT = "spark.sql.files.maxPartitionBytes"


def written(folder: Path, history: History, name: str = "history.jsonl") -> str:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(history.lines()))
    return str(file)


def assert_same(spark: SparkSession, folder: Path, seeds: range) -> None:
    histories = [mixed(seed) for seed in seeds]
    places = [
        written(folder, history, f"{seed}.jsonl")
        for seed, history in zip(seeds, histories, strict=True)
    ]
    judged = check_on_spark.check(spark, places, list(PROPERTIES))
    for seed, history, one in zip(seeds, histories, judged, strict=True):
        assert one.verdicts == check_history(history, PROPERTIES), seed
        assert one.operations == len(history)


@pytest.mark.parametrize("seeds", wide(range(1), range(1, 12)), ids=len)
def test_spark_judges_mixed_histories_as_one_machine_does(
    spark: SparkSession, tmp_path: Path, seeds: range
) -> None:
    assert_same(spark, tmp_path, seeds)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_spark_judges_a_thousand_mixed_histories_as_one_machine_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert_same(spark, tmp_path, range(MANY))


@pytest.fixture
def _small_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    """A short history has many splits and many parts, as a long one has."""
    monkeypatch.setattr(check_on_spark, "OPERATIONS_A_PART", 10)
    before = spark.conf.get(SPLIT)
    spark.conf.set(SPLIT, "1500b")
    yield
    spark.conf.set(SPLIT, before)


@pytest.mark.usefixtures("_small_parts")
def test_a_history_of_several_files_in_many_splits_is_judged_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    (history,) = (one for seed in (13,) if (one := mixed(seed)))
    half = len(history) // 2
    folder = tmp_path / "in parts: 50%"
    written(folder, History.of(history.operations[:half]), "part-0.jsonl")
    written(folder, History.of([]), "part-1.jsonl")
    written(folder, History.of(history.operations[half:]), "part-2.jsonl")
    properties = ["conservation", "sequence", "linear", "heap", "leases"]
    (judged,) = check_on_spark.check(spark, [str(folder)], properties)
    assert judged.verdicts == check_history(history, properties)
    assert len({type(one) for one in judged.verdicts}) > 1
    assert list(judged.alone) == ["heap"]


@pytest.mark.usefixtures("_small_parts")
def test_the_first_bad_line_is_named_by_its_number(spark: SparkSession, tmp_path: Path) -> None:
    lines = [*list(mixed(1).lines()), b"\n", b'{"process": "p1"}\n', b"what?\n"]
    file = tmp_path / "bad"
    file.write_bytes(b"".join(lines))
    with pytest.raises(BadHistory) as there:
        check_on_spark.check(spark, [str(file)])
    with pytest.raises(BadHistory) as here:
        History.read(lines)
    assert str(there.value) == str(here.value)
    assert f"line {len(lines) - 1} " in str(there.value)


def test_an_empty_history_is_judged_by_what_is_usual(spark: SparkSession, tmp_path: Path) -> None:
    (judged,) = check_on_spark.check(spark, [written(tmp_path, History.of([]))])
    assert [str(one) for one in judged.verdicts] == ["conservation: valid", "fifo: valid"]


def test_what_is_not_there_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"HISTORY is '.*none'; allowed: a file of operations"):
        check_on_spark.check(spark, [str(tmp_path / "none")])
    with pytest.raises(BadOption, match="property is 'lifo'"):
        check_on_spark.check(spark, [str(tmp_path)], ["lifo"])


@pytest.mark.soak
def test_the_command_says_the_same_on_spark(tmp_path: Path) -> None:
    places = [written(tmp_path, mixed(seed), f"{seed}.jsonl") for seed in (1, 3)]
    command = [sys.executable, "-m", "snowmelt", "check", "--json", *places]
    here = subprocess.run(command, capture_output=True, check=False, timeout=60)
    there = subprocess.run(
        [*command, "--spark", "local[2]"], capture_output=True, check=False, timeout=110
    )
    assert here.returncode == there.returncode == 20, there.stderr
    assert here.stdout == there.stdout
    told = [json.loads(line)["history"] for line in here.stdout.splitlines()]
    assert told == places
    assert b"heap: what breaks it may lie anywhere" in there.stderr
