"""A client that says what only nodes say, or asks a priority queue for too much at once."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from runtime.network import Serving, Stranger, packed, serving
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.messages import MESSAGES
from snowmelt.protocols.priority.settings import QueueSettings

NUMBERS = count(7)


async def told(stranger: Stranger, request: Any) -> Any:
    stranger.say(Call(next(NUMBERS), request))
    answer = await stranger.answer()
    assert isinstance(answer, Answer)
    return answer.body


async def opened(stranger: Stranger) -> calls.Via:
    """A queue with one item; how this life of the node is named."""
    await stranger.greet()
    made = calls.Open("q", QueueSettings(queue="q", priorities=4))
    while isinstance(there := await told(stranger, made), Declined):
        await asyncio.sleep(0.05)
    assert isinstance(there, calls.Opened)
    one = Batch.of([b"x"])
    put = calls.Put("q", there.via, (calls.Part(1, bytes(one.offsets), bytes(one.blob)),))
    assert isinstance(await told(stranger, put), calls.PutDone)
    return there.via


async def ready(stranger: Stranger) -> int:
    now = await told(stranger, calls.Statistics("q"))
    return sum(one.count for one in now.ready)


async def is_refused(node: Serving, word: Any) -> None:
    async with await Stranger.dial(node.address) as other:
        await other.greet("c-bad")
        other.send(packed(word))
        assert (await other.goodbye()).error == "MessageError", word


async def test_what_only_nodes_say_is_not_heard_of_a_client(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await opened(stranger)
        for kind in MESSAGES:
            tag = kind.__struct_config__.tag
            await is_refused(node, [tag, 1 << 32, "q", 1, [], []])
            await is_refused(node, ["call", 1, [tag, 1 << 32, "q", 1, [], []]])
        assert await ready(stranger) == 1


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (3, 0),
        (3, 100_001),
        (3, -1),
        (6, 0),
        (6, (64 << 20) + 1),
        (1, "q" * 101),
        (2, ["n1"]),
    ],
    ids=[
        "no items",
        "too many",
        "fewer",
        "no bytes",
        "too many bytes",
        "a long name",
        "half a via",
    ],
)
async def test_a_get_beyond_its_bounds_ends_the_connection_and_no_other(
    tmp_path: Path, at: int, value: Any
) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        via = await opened(stranger)
        get: list[Any] = ["priority.get", "q", [via.node, via.life], 1, 0, None, 1 << 20]
        get[at] = value
        await is_refused(node, ["call", 1, get])
        assert await ready(stranger) == 1


async def test_another_is_served_while_a_client_names_what_it_can_and_waits_for_ever(
    tmp_path: Path,
) -> None:
    async with (
        serving(tmp_path) as node,
        await Stranger.dial(node.address) as stranger,
        await Stranger.dial(node.address) as other,
    ):
        via = await opened(stranger)
        await other.greet("c-other")
        leased = await told(other, calls.Get("q", via, 1, Duration(0)))
        scattered = tuple([Interval(at * 999, at * 999 + 1) for at in range(60_000)])
        for number in range(5):
            made_up = calls.Receipt(leased.token, (Share(0, scattered),))
            stranger.say(Call(10_000 + number, calls.Settle("q", done=(made_up,))))
        for number in range(3_000):
            get = calls.Get("q", calls.Via(via.node, number), 100_000, seconds(2**33))
            stranger.say(Call(20_000 + number, get))
        piece = leased.pieces[0]
        where = (Share(piece.priority, (Interval(piece.start, piece.start + 1),)),)
        done = calls.Settle("q", done=(calls.Receipt(leased.token, where),))
        async with asyncio.timeout(15):
            assert await told(other, done) == calls.Settled()
            assert await ready(other) == 0
