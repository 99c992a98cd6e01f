"""The fifo's small parts against plain models: a dict, a list, a bytes."""

from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.state.segments import (
    Segment,
    joined,
    part_of,
    stored,
    unstored,
)

places = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda two: Interval(*sorted(two)))


@given(st.lists(st.tuples(places, st.none() | st.integers(0, 3))), places)
def test_pieces_are_a_dict(steps: list[tuple[Interval, int | None]], where: Interval) -> None:
    pieces: Pieces[int] = Pieces()
    model: dict[int, int] = {}
    for interval, value in steps:
        if value is None:
            pieces.clear(interval)
            for position in interval:
                model.pop(position, None)
        else:
            pieces.put(interval, value)
            model.update(dict.fromkeys(interval, value))
    held = {position: value for part, value in pieces for position in part}
    assert held == model
    assert pieces.total == len(model)
    found = {position: value for part, value in pieces.common(where) for position in part}
    assert found == {position: value for position, value in model.items() if position in where}


bodies = st.lists(st.binary(max_size=5), min_size=1, max_size=6)


@given(st.lists(bodies, min_size=1, max_size=8), st.data())
def test_what_is_joined_is_what_was_put(puts: list[list[bytes]], data: st.DataObject) -> None:
    segments, first = [], 0
    for put in puts:
        batch = Batch.of(put)
        segments.append(Segment(first, bytes(batch.offsets), bytes(batch.blob), b""))
        first += len(put)
    start = data.draw(st.integers(0, first - 1))
    stop = data.draw(st.integers(start + 1, first))
    parts = [
        part_of(one, max(one.first, start), min(one.stop, stop), max(one.first, start))
        for one in segments
        if one.first < stop and start < one.stop
    ]
    come = [bytes(body) for part in joined(parts) for body in Batch(part.offsets, part.blob)]
    assert come == [body for put in puts for body in put][start:stop]


def test_parts_with_other_headers_stay_apart() -> None:
    batch = Batch.of([b"a"])
    parts = [
        ItemRun(at, bytes(batch.offsets), bytes(batch.blob), headers)
        for at, headers in enumerate((b"", b"x", b"x", b""))
    ]
    assert [(part.start, part.count) for part in joined(parts)] == [(0, 1), (1, 2), (3, 1)]


@given(bodies, st.integers(0, 2**40))
def test_a_segment_survives_its_bytes(put: list[bytes], first: int) -> None:
    batch = Batch.of(put)
    segment = Segment(first, bytes(batch.offsets), bytes(batch.blob), b"h", 7)
    assert unstored(stored(segment), segment.stop) == segment


@given(st.binary(max_size=200))
def test_bytes_that_are_no_segment_are_refused(body: bytes) -> None:
    try:
        unstored(body, 3)
    except ValueError:
        return
    raise AssertionError("nothing of three items has so few bytes by chance")
