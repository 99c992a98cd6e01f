"""The frame reader: the same frames however the stream was torn, and a limit before any memory."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.errors import FrameError, TooLarge
from snowmelt.wire.framing import (
    HEADER,
    MAGIC,
    PLACE_BYTES,
    SMALL,
    VERSION,
    Frame,
    FrameReader,
    Kind,
    framed,
)

FRAMES = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=300)), max_size=12)


def stream_of(frames: list[tuple[Kind, bytes]]) -> bytes:
    return b"".join(framed(kind, payload) for kind, payload in frames)


def fed(reader: FrameReader, pieces: list[bytes]) -> list[tuple[Kind, bytes]]:
    return [(kind, bytes(word)) for piece in pieces for kind, word in reader.feed(piece)]


@given(FRAMES, st.data())
def test_any_tearing_of_the_stream_gives_the_same_frames(
    frames: list[tuple[Kind, bytes]], data: st.DataObject
) -> None:
    stream = stream_of(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    reader = FrameReader()
    assert fed(reader, pieces) == frames
    assert reader.held == 0


@given(FRAMES)
def test_byte_by_byte_gives_the_same_frames(frames: list[tuple[Kind, bytes]]) -> None:
    stream = stream_of(frames)
    assert fed(FrameReader(), [stream[at : at + 1] for at in range(len(stream))]) == frames


@pytest.mark.parametrize("piece", [1, 7, 4096, 64 << 10, (64 << 10) + 1, 1 << 20])
def test_a_large_frame_comes_whole_from_pieces_of_any_size(piece: int) -> None:
    payload = bytes(range(256)) * 2048
    stream = framed(Kind.MESSAGE, payload) * 2
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]
    assert fed(FrameReader(), pieces) == [(Kind.MESSAGE, payload)] * 2


LARGE = st.lists(st.sampled_from([0, 9, SMALL - 9, SMALL, SMALL + 40, 3 * SMALL]), max_size=6)


@given(LARGE, st.integers(0, 1 << 32))
def test_frames_are_the_same_whether_read_into_place_or_fed(sizes: list[int], seed: int) -> None:
    chance = Random(seed)
    frames = [(Kind.MESSAGE, bytes([number]) * size) for number, size in enumerate(sizes)]
    stream, at = memoryview(stream_of(frames)), 0
    reader, came = FrameReader(), []
    while at < len(stream):
        most = chance.choice([1, 7, 10_000, SMALL, 2 * SMALL])
        place = reader.rest() if chance.random() < 0.5 else None
        cut: list[Frame] = []
        if place is None:
            some = bytes(stream[at : at + most])
            reader.cut(some, cut)
        else:
            some = bytes(stream[at : at + min(most, len(place))])
            place[: len(some)] = some
            reader.filled(len(some), cut)
        at += len(some)
        came += [(kind, bytes(word)) for kind, word in cut]
    assert came == frames
    assert reader.held == 0


def test_a_place_for_large_frames_is_used_again_and_one_for_the_largest_is_not_kept() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        for size in (SMALL, PLACE_BYTES // 2, SMALL, PLACE_BYTES // 2, 2 * PLACE_BYTES):
            frames: list[Frame] = []
            reader.cut(HEADER.pack(MAGIC, VERSION, Kind.MESSAGE, 0, size), frames)
            place = reader.rest()
            assert place is not None
            place[:] = b"x" * size
            reader.filled(size, frames)
            assert [(kind, len(word)) for kind, word in frames] == [(Kind.MESSAGE, size)]
        del frames, place
        assert tracemalloc.get_traced_memory()[0] < SMALL
    finally:
        tracemalloc.stop()


@given(FRAMES, st.integers(0, 200))
def test_a_truncated_stream_gives_what_was_whole_and_holds_the_rest(
    frames: list[tuple[Kind, bytes]], less: int
) -> None:
    stream = stream_of(frames)
    torn = stream[: max(0, len(stream) - less)]
    reader = FrameReader()
    whole = fed(reader, [torn])
    assert whole == frames[: len(whole)]
    assert reader.held == len(torn) - len(stream_of(whole))


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (HEADER.pack(MAGIC + 1, VERSION, 4, 0, 0), "no frame"),
        (HEADER.pack(MAGIC, VERSION, 4, 1, 0), "no frame"),
        (HEADER.pack(MAGIC, 3, 4, 0, 0), f"version 3; this program reads {VERSION}"),
        (HEADER.pack(MAGIC, 0, 4, 0, 0), "version 0"),
        (HEADER.pack(MAGIC, VERSION, 0, 0, 0), "kind 0"),
        (HEADER.pack(MAGIC, VERSION, 255, 0, 0), "kind 255"),
        (HEADER.pack(MAGIC, VERSION, 4, 0, 1001), "1001 bytes; the limit here is 1000"),
        (HEADER.pack(MAGIC, VERSION, 4, 0, 0xFFFFFFFF), "4294967295 bytes; the limit"),
        (b"GET / HTTP/1.1\r\n", "another protocol"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
    ],
)
def test_a_header_that_is_wrong_is_refused_before_a_byte_of_its_payload(
    header: bytes, why: str
) -> None:
    with pytest.raises(FrameError, match=why):
        FrameReader(1000).feed(header)
    reader = FrameReader(1000)  # behind a good frame, and torn, just the same
    with pytest.raises(FrameError, match=why):
        fed(reader, [framed(Kind.MESSAGE, b"good") + header[:3], header[3:]])


def test_the_limit_is_inclusive_and_can_be_raised() -> None:
    reader = FrameReader(10)
    assert reader.feed(framed(Kind.MESSAGE, bytes(10))) == [(Kind.MESSAGE, bytes(10))]
    reader.admit(11)
    assert reader.feed(framed(Kind.MESSAGE, bytes(11))) == [(Kind.MESSAGE, bytes(11))]


def test_a_claim_to_send_much_costs_nothing() -> None:
    tracemalloc.start()
    try:
        readers = [FrameReader() for _ in range(100)]
        for reader in readers:
            reader.feed(HEADER.pack(MAGIC, VERSION, 4, 0, 72 << 20) + b"a little")
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_a_frame_in_many_crumbs_costs_no_more_than_its_bytes() -> None:
    size = 500_000
    reader = FrameReader()
    tracemalloc.start()
    try:
        reader.feed(HEADER.pack(MAGIC, VERSION, 4, 0, size + 1))
        for at in range(0, size, 2):
            reader.feed(at.to_bytes(4)[:2])
        assert reader.held == size + 8
        assert tracemalloc.get_traced_memory()[1] < 2 * size
    finally:
        tracemalloc.stop()


def test_a_payload_above_the_limit_is_not_framed() -> None:
    with pytest.raises(TooLarge, match="11 bytes; the limit of a frame is 10"):
        framed(Kind.MESSAGE, bytes(11), 10)
