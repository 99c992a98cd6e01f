"""The example of events in columns of lists, on the session of these tests: all come back."""

import sys
from pathlib import Path

import pytest

from spark.cluster import queues_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import msgspec
from muons.__main__ import differing, make, put, wanted
from muons.events import made, packed, unpacked
from muons.pipeline import is_pair, pipeline, select


def test_columns_of_lists_become_bodies_and_columns_again() -> None:
    events = made(0, 500, seed=2)
    bodies = packed(events)
    assert unpacked(bodies) == events
    assert unpacked(bodies[:0]).num_rows == 0
    kept = [body for body in bodies.to_pylist() if select(body)]
    pairs = [row for row in events.to_pylist() if row["nMuon"] == 2]
    assert len(kept) == sum(sum(row["Muon_charge"]) == 0 for row in pairs) > 20
    assert not is_pair((1, [3.0], [0.1], [0.1], [0.1], [1]))
    with pytest.raises(msgspec.DecodeError):
        select(b"no event")


@pytest.mark.soak
def test_a_table_of_events_goes_through_queues_and_comes_back_exactly(
    spark, tmp_path: Path
) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    make(table, 3000)
    with queues_of(1, tmp_path) as queues:
        put(spark, str(table), queues.url)
        put(spark, str(table), queues.url)  # as after a crash: it is there once
        stood = pipeline(str(out)).run(
            queues.url, drain=True, checkpoints=tmp_path / "checkpoints", session=spark
        )
    assert stood[0].taken == 3000
    assert differing(wanted(spark, str(table)), spark.read.parquet(str(out))) == 0
