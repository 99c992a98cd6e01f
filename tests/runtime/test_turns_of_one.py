"""One connection's calls take turns with everybody else's, by their number and by their work."""

import asyncio
from typing import Any

import pytest

from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo.messages import Echo, Echoed
from snowmelt.runtime import connection
from snowmelt.runtime.connection import TURN_FRAMES, Connection, gathered
from snowmelt.runtime.limits import Limits
from snowmelt.wire.codec import Codec, encode
from snowmelt.wire.framing import FRAME_BYTES_MAX, Kind, framed
from snowmelt.wire.greeting import Role


class Counting:
    """Whoever holds the connection: counts what comes."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.touched: Any = None
        self.heard = 0

    def deliver(self, source: NodeId, message: Any) -> None:
        del source, message
        self.heard += 1


@pytest.mark.parametrize(("seconds", "at_once"), [(0.0, TURN_FRAMES), (0.006, 2), (1.0, 1)])
async def test_a_turn_is_so_many_calls_or_so_much_work(
    monkeypatch: pytest.MonkeyPatch, seconds: float, at_once: int
) -> None:
    owner = Counting()
    monkeypatch.setattr(connection, "monotonic", lambda: owner.heard * seconds)
    one = Connection(owner, Codec.for_nodes(), inbound=True)  # type: ignore[arg-type]
    one.open(NodeId("c-1"), Role.CLIENT, FRAME_BYTES_MAX)
    calls = [framed(Kind.MESSAGE, encode(Call(at, Echo(b"")))) for at in range(100)]
    one.data_received(b"".join(calls))
    assert owner.heard == at_once
    while owner.heard < len(calls):
        before = owner.heard
        await asyncio.sleep(0)
        assert owner.heard - before <= at_once


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
    one = Connection(owner, Codec.for_nodes(), inbound=True)  # type: ignore[arg-type]
    one._transport = stream  # type: ignore[assignment]
    one.open(NodeId("c-1"), Role.CLIENT, FRAME_BYTES_MAX)

    def work(*numbers: int) -> None:
        for number in numbers:
            one.send(Answer(number, Echoed(b"")))
        assert stream.written == []

    gathered(owner, work, 1, 2)  # type: ignore[arg-type]
    assert len(stream.written) == 1
    assert owner.touched is None
    assert stream.written[0].count(b"answer") == 2
