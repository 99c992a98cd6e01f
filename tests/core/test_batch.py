"""A batch is an Arrow column, and a slice of it is the same memory."""

from array import array
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.batch import Batch

BODIES = st.lists(st.binary(max_size=12), max_size=12)


@st.composite
def batches_and_bounds(draw):
    bodies = draw(BODIES)
    start = draw(st.integers(0, len(bodies)))
    return bodies, start, draw(st.integers(start, len(bodies)))


def address(buffer) -> int:
    return pa.py_buffer(buffer).address


def offsets(*edges) -> bytes:
    return array("i", edges).tobytes()


def as_arrow(batch):
    buffers = [None, pa.py_buffer(batch.offsets), pa.py_buffer(batch.blob)]
    column = pa.Array.from_buffers(pa.binary(), len(batch), buffers)
    column.validate(full=True)
    return column


@given(BODIES)
def test_what_goes_in_comes_out(bodies):
    batch = Batch.of(bodies)
    assert list(batch) == bodies
    assert [batch[index] for index in range(len(batch))] == bodies
    assert len(batch) == len(bodies)
    assert batch.size == sum(map(len, bodies))
    assert Batch(batch.offsets, batch.blob) == batch


@given(batches_and_bounds())
def test_a_slice_is_the_items_and_the_same_memory(drawn):
    bodies, start, stop = drawn
    batch = Batch.of(bodies)
    part = batch.slice(start, stop)
    assert list(part) == bodies[start:stop]
    assert part.size == sum(map(len, bodies[start:stop]))
    assert address(part.blob) == address(batch.blob)
    assert address(part.offsets) == address(batch.offsets) + 4 * start


@given(batches_and_bounds(), st.data())
def test_a_slice_of_a_slice_is_a_slice(drawn, data):
    bodies, start, stop = drawn
    part = Batch.of(bodies).slice(start, stop)
    low = data.draw(st.integers(0, len(part)))
    high = data.draw(st.integers(low, len(part)))
    assert list(part.slice(low, high)) == bodies[start:stop][low:high]


@given(batches_and_bounds())
def test_arrow_sees_a_batch_and_any_slice_without_a_copy(drawn):
    bodies, start, stop = drawn
    part = Batch.of(bodies).slice(start, stop)
    column = as_arrow(part)
    assert column.to_pylist() == bodies[start:stop]
    _, edges, blob = column.buffers()
    assert edges.address == address(part.offsets)
    assert blob.address == address(part.blob)


@given(batches_and_bounds())
def test_a_trimmed_slice_is_the_same_items_with_nothing_else(drawn):
    bodies, start, stop = drawn
    part = Batch.of(bodies).slice(start, stop)
    trimmed = part.trimmed()
    assert trimmed == part
    assert bytes(trimmed.blob) == b"".join(bodies[start:stop])
    assert array("i", bytes(trimmed.offsets))[0] == 0
    assert as_arrow(trimmed).to_pylist() == bodies[start:stop]
    assert trimmed.trimmed() is trimmed
    assert Batch(trimmed.offsets, trimmed.blob) == part


def test_trimming_copies_no_body_and_a_trim_batch_not_at_all():
    batch = Batch.of([b"one", b"two", b"three"])
    assert batch.trimmed() is batch
    part = batch.slice(1, 3).trimmed()
    assert address(part.blob) == address(batch.blob) + 3


def test_a_body_is_a_view_of_the_blob():
    batch = Batch.of([b"one", b"two"])
    assert address(batch[1]) == address(batch.blob) + 3
    assert [address(body) for body in batch] == [address(batch.blob), address(batch.blob) + 3]


HOSTILE = [
    b"",
    b"abc",
    offsets(0, 1) + b"x",
    offsets(-1, 2),
    offsets(0, 5),
    offsets(0, 3, 2, 4),
    offsets(3, 0),
    offsets(2**31 - 1),
    offsets(0, -(2**31)),
]


@pytest.mark.parametrize("edges", HOSTILE)
def test_offsets_that_lead_outside_are_refused(edges):
    with pytest.raises(ValueError, match="offsets"):
        Batch(edges, b"four")


@given(st.lists(st.integers(-3, 6), min_size=1, max_size=6))
def test_a_batch_is_refused_or_every_item_lies_in_the_blob(edges):
    try:
        batch = Batch(offsets(*edges), b"four")
    except ValueError:
        assert edges != sorted(edges) or edges[0] < 0 or edges[-1] > 4
        return
    assert list(batch) == [b"four"[a:b] for a, b in pairwise(edges)]


@given(BODIES, st.integers(-20, 20))
def test_an_index_outside_is_an_error_and_never_wraps(bodies, index):
    batch = Batch.of(bodies)
    if 0 <= index < len(bodies):
        assert batch[index] == bodies[index]
    else:
        with pytest.raises(IndexError):
            batch[index]


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 3), (3, 3)])
def test_a_slice_outside_is_an_error(start, stop):
    with pytest.raises(IndexError):
        Batch.of([b"a", b"b"]).slice(start, stop)


def test_a_batch_has_neither_truth_value_nor_hash_and_equals_no_list():
    batch = Batch.of([b"a"])
    with pytest.raises(TypeError):
        bool(batch)
    with pytest.raises(TypeError):
        hash(batch)
    assert batch != [b"a"]
    assert repr(batch) == "Batch(1 items, 1 bytes)"


def test_a_batch_of_nothing_is_one_offset():
    batch = Batch.of([])
    assert (len(batch), batch.size, list(batch)) == (0, 0, [])
    assert as_arrow(batch).to_pylist() == []
