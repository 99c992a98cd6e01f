"""Bodies: what is encoded is decoded, and what does not read is left out and told."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ufmulti.generate import generate
from ufmulti.layout import HIT, PAIR, PAIRS, RAW, ROWS_MAX, TRACK, TRACKS, Events, Layout
from ufmulti.ragged import starts

LAYOUTS = {RAW.kind: RAW, TRACKS.kind: TRACKS}


def made(layout: Layout, counts: list[int], seed: int) -> Events:
    """Events of so many rows each, whose rows are chance but for the layers."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, sum(counts) * layout.row.itemsize, np.uint8).view(layout.row)
    if layout is RAW:
        rows["layer"] %= 10
    number = rng.integers(0, 2**64, len(counts), np.uint64)
    return Events(number, starts(np.array(counts, np.int64)), rows)


@settings(max_examples=100, deadline=None)
@given(
    layout=st.sampled_from([RAW, TRACKS]),
    counts=st.lists(st.integers(0, 30), max_size=12),
    cut=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    seed=st.integers(0, 2**32),
    large=st.booleans(),
)
def test_what_is_encoded_is_decoded_also_from_a_slice(
    layout: Layout, counts: list[int], cut: tuple[int, int], seed: int, large: bool
) -> None:
    events = made(layout, counts, seed)
    bodies = layout.encode(events)
    bodies.validate(full=True)
    if large:
        bodies = bodies.cast(pa.large_binary())
    start = min(cut[0], len(counts))
    stop = min(start + cut[1], len(counts))
    back, readable = layout.decode(bodies[start:stop])
    wanted = events.part(start, stop)
    assert readable.tolist() == [True] * (stop - start)
    assert back.number.tolist() == wanted.number.tolist()
    assert back.first.tolist() == wanted.first.tolist()
    assert back.rows.tobytes() == wanted.rows.tobytes()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=60), st.integers(0, 19)), max_size=15))
def test_bodies_that_do_not_read_are_left_out_and_told(mix: list[bytes | int | None]) -> None:
    good = generate(0, 20).to_pylist()
    bodies = [good[one] if isinstance(one, int) else one for one in mix]
    events, readable = RAW.decode(pa.array(bodies, pa.binary()))
    assert readable.tolist() == [isinstance(one, int) for one in mix]
    assert events.number.tolist() == [one for one in mix if isinstance(one, int)]
    alone, _ = RAW.decode(pa.array([one for one in bodies if one in good], pa.binary()))
    assert events.rows.tobytes() == alone.rows.tobytes()


@pytest.mark.parametrize(
    "harm",
    [
        lambda _: b"",
        lambda body: body[:15],
        lambda body: body[:-1],
        lambda body: body + b"\0",
        lambda body: b"uf" + body[2:],
        lambda body: body[:2] + b"T" + body[3:],
        lambda body: body[:3] + b"\2" + body[4:],
        lambda body: body[:4] + b"\xff\xff\xff\xff" + body[8:],
        lambda body: body[:16] + b"\x0a" + body[17:],
        lambda _: None,
    ],
    ids=["empty", "head", "short", "long", "magic", "kind", "version", "count", "layer", "null"],
)
def test_each_kind_of_harm_is_seen_between_two_good_bodies(harm) -> None:
    one, two, three = generate(0, 3).to_pylist()
    events, readable = RAW.decode(pa.array([one, harm(two), three], pa.binary()))
    assert readable.tolist() == [True, False, True]
    assert events.number.tolist() == [0, 2]
    assert len(events.rows) == (len(one) + len(three) - 32) // HIT.itemsize


def test_text_is_refused() -> None:
    with pytest.raises(TypeError, match="not string"):
        RAW.decode(pa.array(["UF"]))


def test_an_event_too_large_or_without_its_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="1025 rows"):
        RAW.encode(made(RAW, [ROWS_MAX + 1], 0))
    with pytest.raises(ValueError, match="0 rows"):
        PAIRS.encode(Events(np.zeros(1, np.uint64), np.zeros(2, np.int64), np.empty(0, PAIR)))


def test_rows_are_packed_as_the_docstring_says() -> None:
    assert (HIT.itemsize, TRACK.itemsize, PAIR.itemsize) == (7, 18, 28)
    body = generate(5, 1)[0].as_py()
    assert body[:4] == b"UFR\1"
    assert int.from_bytes(body[8:16], "little") == 5
    assert len(body) == 16 + 7 * int.from_bytes(body[4:8], "little")
