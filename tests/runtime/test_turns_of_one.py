"""One connection's calls take turns with everybody else's, by their number and by their work."""

import asyncio
from typing import Any

import pytest

from greetings import speaker, whole
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo.messages import Echo, Echoed
from snowmelt.runtime import connection, hearing
from snowmelt.runtime.arriving import Arriving
from snowmelt.runtime.connection import SLICE_FRAMES, LoopConnection, gathered
from snowmelt.runtime.frame_place import FramePlace
from snowmelt.runtime.hearing import OWES_MOST, REST_SECONDS, SLICE_SECONDS, Hearing
from snowmelt.runtime.ledger import Payer
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.transport import ledger_of
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import FRAME_BYTES_MAX, FrameReader, Kind, framed
from snowmelt.wire.greeting import Gate, Role
from snowmelt.wire.sides import ConnectionOpened, Dialling, Listening


class Counting:
    """Whoever holds the connection: counts what comes."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.ledger = ledger_of(self.limits)
        self.arriving = Arriving[FramePlace](self.ledger)
        self.touched: Any = None
        self.hearing = Hearing()
        self.heard = 0
        self.payer = Payer("ann", "c-1")

    def side(self, connection: LoopConnection) -> Listening:
        del connection
        return Listening(Gate("snowmelt"), NodeId("n1"), Role.NODE, FRAME_BYTES_MAX)

    def opened(self, connection: LoopConnection, opened: ConnectionOpened) -> None:
        assert connection.peer == opened.name == whole("c-1")
        connection.payer = self.payer

    def resumed(self, name: NodeId) -> None:
        del name

    def called(self, line: LoopConnection, call: Call[Any]) -> None:
        del line, call
        self.heard += 1


def open_one(owner: Counting) -> LoopConnection:
    """A client's, that has been let in."""
    one = LoopConnection(owner, inbound=True)  # type: ignore[arg-type]
    dials = Dialling(speaker("c-1"))
    list(one._machine.receive(dials.first))
    (word,) = FrameReader().feed(bytes(one._machine.taken()))
    one.data_received(dials.hear(*word)[0])
    one.hear(0.0)
    return one


SLICE = int(SLICE_SECONDS * 1_000_000)
"""Microseconds."""


@pytest.mark.parametrize(
    ("each", "owed", "at_once"),
    [(0, 0.0, SLICE_FRAMES), (300, 0.0, 4), (SLICE + 1, 0.0, 1), (0, OWES_MOST / 5.5, 6)],
)
async def test_a_slice_is_so_many_calls_or_so_much_work(
    monkeypatch: pytest.MonkeyPatch, each: int, owed: float, at_once: int
) -> None:
    owner = Counting()
    monkeypatch.setattr(connection, "caused", lambda _call: owed)

    def clock() -> float:
        return owner.heard * each / 1_000_000

    monkeypatch.setattr(connection, "perf_counter", clock)
    monkeypatch.setattr(hearing, "perf_counter", clock)
    one = open_one(owner)
    one.data_received(calls(100))
    heard = [owner.heard]
    while owner.heard < 100:
        before = owner.heard
        assert one.hear(clock() + SLICE_SECONDS) == (owner.heard < 100)
        heard.append(owner.heard - before)
    assert heard[0] == max(heard) == at_once


def calls(count: int) -> bytes:
    return b"".join(framed(Kind.MESSAGE, encode(Call(at, Echo(b"")))) for at in range(count))


class Stream:
    """What asyncio gives a connection to write to."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_named: 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))


async def test_what_one_piece_of_work_sends_leaves_at_its_end_in_one_write() -> None:
    owner, stream = Counting(), Stream()
    one = open_one(owner)
    one._transport = stream  # type: ignore[assignment]

    def work(*numbers: int) -> None:
        for number in numbers:
            one.send(Answer(number, Echoed(b"")))
        assert stream.written == []

    gathered(owner, work, 1, 2)  # type: ignore[arg-type]
    assert len(stream.written) == 1
    assert owner.touched is None
    assert stream.written[0].count(b"answer") == 2


@pytest.mark.parametrize("slows", [True, False])
async def test_accounts_rest_while_one_that_slows_does_not_read(slows: bool) -> None:
    owner = Counting()
    one, asks = open_one(owner), open_one(owner)
    one._transport = Stream()  # type: ignore[assignment]
    one.slows = slows
    one.pause_writing()
    asks.data_received(calls(64))
    while owner.heard < 64:
        await asyncio.sleep(0)
    assert bool(owner.hearing._rests) == slows
    one.resume_writing()
    await asyncio.sleep(2 * REST_SECONDS)
    assert not owner.hearing._rests
    one._deadline.cancel()
