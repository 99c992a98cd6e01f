"""From parts to rows and back: every body, key and header in its place, and no item copied."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.client.queue.bodies import packed_headers
from snowmelt.core import times
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.api.labels import Labels
from snowmelt.spark.columns import readable, source_schema
from snowmelt.spark.rows import BYTES_MAX, ROWS_MAX, SMALL, Rows, labels_of
from snowmelt.spark.staging import (
    CALL_BYTES,
    CONTENTS,
    LARGE_BYTES,
    bodies,
    content_of,
    gathered,
    loads,
)

WHOLE = readable(source_schema("true"))


def part_of(
    start: int, some: list[bytes], labels: Labels | dict[str, str] | None = None
) -> ItemRun:
    batch = Batch.of(some)
    return ItemRun(start, bytes(batch.offsets), bytes(batch.blob), packed_headers(labels))


def rows_of(parts: list[ItemRun], schema: pa.Schema = WHOLE) -> list[dict]:
    batches = list(Rows("raw", schema).of(parts))
    assert all(batch.schema.equals(schema) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_large_part_is_not_copied() -> None:
    some = [b"%d" % number for number in range(SMALL)]
    whole = Batch.of([b"others", *some, b"more"])
    blob = bytes(whole.blob)
    part = ItemRun(40, bytes(whole.slice(1, 1 + SMALL).offsets), blob)  # does not begin at 0
    (batch,) = Rows("raw", WHOLE).of([part])
    values = batch.column("value")
    assert values.to_pylist() == some
    assert values.buffers()[2].address == pa.py_buffer(blob).address
    assert batch.column("position").to_pylist() == list(range(40, 40 + SMALL))
    through = pa.BufferOutputStream()
    with pa.ipc.new_stream(through, WHOLE) as stream:
        stream.write_batch(batch)
    (read,) = pa.ipc.open_stream(through.getvalue())
    assert read.equals(batch)


def test_small_parts_are_joined_and_large_batches_are_cut() -> None:
    single = [part_of(at, [b"%d" % at]) for at in range(3 * SMALL)]
    many = part_of(9000, [b"x"] * (2 * ROWS_MAX + 1))
    batches = list(Rows("raw", WHOLE).of([*single, many, *single]))
    assert max(map(len, batches)) <= ROWS_MAX
    assert len(batches) == 1 + 3 + 1
    large = part_of(0, [bytes(BYTES_MAX // 4)] * 10)
    assert [len(batch) for batch in Rows("raw", WHOLE).of([large])] == [4, 4, 2]
    huge = part_of(0, [bytes(2 * BYTES_MAX)] * 2)
    assert [len(batch) for batch in Rows("raw", WHOLE).of([huge])] == [1, 1]


texts = st.text(max_size=3)
maps = st.dictionaries(texts, texts, max_size=2)


MOMENTS = st.integers(0, 2**40)  # 0 for an item of which it is not known


def put_at(micros: list[int] | None) -> bytes:
    return b"".join(times.whole(1, one * 1000 + one % 1000) for one in micros or ())


def moment(micros: int) -> datetime | None:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros) if micros else None


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[ItemRun], list[dict]]:
    made: list[ItemRun] = []
    rows: list[dict] = []
    start = 0
    for _ in range(draw(st.integers(1, 4))):
        start += draw(st.integers(0, 3))
        some = draw(st.lists(st.binary(max_size=4), min_size=1, max_size=5))
        keys = draw(st.none() | st.tuples(*[st.none() | st.binary(max_size=2)] * len(some)))
        own = draw(st.none() | st.tuples(*[st.none() | maps] * len(some)))
        labels = Labels(draw(maps), keys, own)
        failures = draw(st.integers(0, 3))
        micros = draw(st.none() | st.lists(MOMENTS, min_size=len(some), max_size=len(some)))
        part = part_of(start, some, labels)
        made.append(
            ItemRun(part.start, part.offsets, part.blob, part.headers, failures, "", put_at(micros))
        )
        for at, body in enumerate(some):
            key, headers = labels.of(at)
            rows.append(
                {
                    "key": key,
                    "value": body,
                    "queue": "raw",
                    "position": start + at,
                    "timestamp": moment(micros[at]) if micros else None,
                    "failures": failures,
                    "headers": list(headers.items()) or None,
                }
            )
        start += len(some)
    return made, rows


@given(parts())
@settings(max_examples=200, deadline=None)
def test_rows_are_what_was_put(drawn: tuple[list[ItemRun], list[dict]]) -> None:
    made, rows = drawn
    assert rows_of(made) == rows


def test_shared_headers_and_none_at_all() -> None:
    shared, bare = part_of(0, [b"a", b"b"], {"from": "shop"}), part_of(2, [b"c"])
    assert [row["headers"] for row in rows_of([shared, bare])] == [[("from", "shop")]] * 2 + [None]
    assert [row["headers"] for row in rows_of([bare])] == [None]
    assert {row["key"] for row in rows_of([shared, bare])} == {None}


def test_text_is_checked_and_the_position_named() -> None:
    schema = pa.schema([("value", pa.string()), ("key", pa.string())])
    good = part_of(5, ["grün".encode()], Labels(keys=(b"k",)))
    assert rows_of([good], schema) == [{"value": "grün", "key": "k"}]
    with pytest.raises(BadOption, match="the value at position 7 is no UTF-8"):
        rows_of([part_of(6, [b"a", b"\xff"])], schema)


def frame(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(columns)


def test_bodies_are_the_columns_own_memory() -> None:
    column = pa.array([b"one", b"two", b"three"])
    batch = bodies(frame(value=column).slice(1))
    assert [bytes(body) for body in batch] == [b"two", b"three"]
    assert pa.py_buffer(batch.blob).address == column.buffers()[2].address
    assert [bytes(one) for one in bodies(frame(value=pa.array(["ä"], pa.large_string())))] == [
        "ä".encode()
    ]
    assert len(bodies(frame(value=pa.array([], pa.binary())))) == 0
    with pytest.raises(BadOption, match="column value is None; allowed: a body in each row"):
        bodies(frame(value=pa.array([b"a", None])))


def test_keys_and_headers_go_along_when_there_are_any() -> None:
    kind = pa.map_(pa.string(), pa.string())
    value = pa.array([b"a", b"b"])
    assert labels_of(frame(value=value)) is None
    assert labels_of(frame(value=value, key=pa.nulls(2, pa.string()))) is None
    own = pa.array([[("a", "1")], None], kind)
    found = labels_of(frame(value=value, key=pa.array([None, "k"]), headers=own))
    assert found == Labels({}, (None, b"k"), ({"a": "1"}, None))
    with pytest.raises(BadOption, match="a value for each name, not null"):
        labels_of(frame(value=value, headers=pa.array([[("a", None)], None], kind)))


@settings(deadline=None)  # a busy machine may take a second for a first call
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from([0.0, 0.01, 0.1, 2.34, None])),
        max_size=30,
    )
)
def test_rows_are_split_by_queue_and_delay_in_their_order(rows: list) -> None:
    whole = frame(
        value=pa.array([b"%d" % at for at in range(len(rows))], pa.binary()),
        queue=pa.array([name for name, _ in rows], pa.string()),
        delay=pa.array([delay for _, delay in rows], pa.float64()),
    )
    rounded = {None: 0.0, 0.0: 0.0, 0.01: 0.1, 0.1: 0.1, 2.34: 2.4}
    wanted: dict = {}
    for at, (name, delay) in enumerate(rows):
        wanted.setdefault((name, rounded[delay]), []).append(b"%d" % at)
    found = loads(whole, "")
    assert {(one.queue, one.delay): one.rows["value"].to_pylist() for one in found} == wanted
    assert len(found) == len(wanted)
    assert {one.queue for one in loads(whole, "mine")} <= {"mine"}


def test_a_row_needs_a_queue_and_no_time_machine() -> None:
    with pytest.raises(BadOption, match="column queue is None"):
        loads(frame(value=pa.array([b"a"]), queue=pa.nulls(1, pa.string())), "")
    for bad in (-0.5, float("nan")):
        with pytest.raises(BadOption, match="0 or more seconds"):
            loads(frame(value=pa.array([b"a"]), delay=pa.array([bad])), "q")
    (load,) = loads(frame(value=pa.array([b"a"]), delay=pa.array([3], pa.int32())), "q")
    assert load.delay == 3.0


def test_sparks_batches_are_gathered_into_calls() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, 100_000, 10_000):
            yield frame(value=pa.array(np.arange(first, first + 10_000).astype("S10")))

    found = list(gathered(batches()))
    assert [len(batch) for batch in found] == [30_000, 30_000, 30_000, 10_000]
    values = [int(value.rstrip(b"\0")) for one in found for value in one["value"].to_pylist()]
    assert values == list(range(100_000))
    large = frame(value=pa.array([bytes(CALL_BYTES // 2 + 1)] * 3))
    assert [len(batch) for batch in gathered([large])] == [1, 1, 1]
    assert list(gathered([])) == []


def test_a_large_batch_is_staged_as_it_is_and_none_overtakes_another() -> None:
    small = frame(value=pa.array([b"s", b"t"], pa.binary()))
    large = frame(value=pa.array([bytes(LARGE_BYTES)], pa.binary()))
    found = list(gathered([small, small, large, small]))
    assert [len(batch) for batch in found] == [4, 1, 2]
    mine, own = (batch["value"].buffers()[2].address for batch in (found[1], large))
    assert mine == own


LABELLED = st.tuples(
    st.sampled_from([b"", b"a", b"bb"]),
    st.sampled_from([None, b"", b"k", b"l"]),
    st.sampled_from([None, [], [("h", "1")], [("h", "1"), ("g", "2")]]),
)


@given(st.lists(LABELLED, max_size=12), st.lists(st.integers(0, 12)), st.randoms())
def test_what_rows_are_is_the_same_however_they_are_cut(
    rows: list, cuts: list[int], chance: Random
) -> None:
    def whole(some: list) -> pa.RecordBatch:
        values, keys, headers = zip(*some, strict=True) if some else ((), (), ())
        return frame(
            value=pa.array(values, pa.binary()),
            key=pa.array(keys, pa.binary()),
            headers=pa.array(headers, pa.map_(pa.string(), pa.string())),
        )

    mixed = chance.sample(rows, len(rows))
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    pieces = [whole(mixed[first:stop]) for first, stop in pairwise(edges)]
    assert sum(map(content_of, pieces)) % CONTENTS == content_of(whole(rows))
    told = {(value, key, *(headers or ())) for value, key, headers in rows}
    assert len({content_of(whole([row])) for row in rows}) == len(told)


@pytest.mark.parametrize("edges", [[-1, 2, 4], [0, 3, 2], [0, 2, 9]])
@pytest.mark.parametrize("parts", [1, 2])
def test_offsets_that_lie_are_refused_and_read_no_foreign_memory(
    edges: list[int], parts: int
) -> None:
    part = ItemRun(0, np.array(edges, np.int32).tobytes(), b"four")
    with pytest.raises(ValueError, match="offsets are not in order within a blob"):
        list(Rows("raw", WHOLE).of([part] * parts))
