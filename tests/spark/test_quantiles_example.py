"""The example of quantiles, on the session and the cluster of these tests."""

import sys
from pathlib import Path

import pytest

from snowmelt_lab.spark import quantiles, select
from spark.cluster import queues_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from quantiles.__main__ import SHARES, fill, requests, tell, waiting


def test_quantiles_of_a_table_are_those_of_sorting(
    spark, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = requests(spark, 20_000)
    rows = sorted(row[1] for row in frame.where("microseconds is not null").collect())
    found = quantiles(frame, "microseconds", q=SHARES)
    assert list(found) == [rows[rank - 1] for rank in found.ranks]
    assert (found.count, found.nulls) == (19_800, 200)
    tell("requests", SHARES, found, 1.0)
    assert "at 0.99, the 19,602th" in capsys.readouterr().out


@pytest.mark.soak
def test_quantiles_of_a_queue_are_those_of_what_waits(spark, tmp_path: Path) -> None:
    with queues_of(1, tmp_path) as queues:
        fill(queues.url, 5_000)
        prices = sorted(at * 7919 % 100_003 for at in range(5_000))
        frame = waiting(spark, queues.url)
        found = quantiles(frame, "cents", q=SHARES)
        assert list(found) == [prices[rank - 1] for rank in found.ranks]
        queues.fifo("orders").purge()
        assert list(select(frame, "cents", k=[5_000])) == [prices[-1]]
        frame.unpersist()
