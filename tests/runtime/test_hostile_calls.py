"""Every call there is, with every field out of bounds: a node refuses it, and goes on for others.

What is sent is made of the messages' own types, so a call that is new tomorrow is attacked, too.
"""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snowmelt.aio
from runtime.network import Stranger, packed, serving
from snowmelt.core.batch import Batch
from snowmelt.core.errors import LeaseLost, MessageError
from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.membership import GetStatus
from snowmelt.protocols.queue.api.calls import (
    SECRET_BYTES,
    Describe,
    Get,
    Open,
    Put,
    PutDone,
    QueueStatus,
    Settle,
    Settled,
)
from snowmelt.wire.codec import MessageDecoder, Request
from snowmelt_world.attack.malice import Malice

CALLS = 4_000


def bodies_of(malice: Malice) -> Iterator[Any]:
    """Bodies that read as calls; what does not is another test's."""
    while True:
        body = malice.body()
        if body == [GetStatus.__struct_config__.tag]:
            continue  # it has no fields, and its answer no bounds
        try:
            MessageDecoder.for_callers().decode(msgspec.msgpack.encode(["call", 1, body]))
        except (MessageError, OverflowError):
            continue
        yield body


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_a_client_asks_a_node_goes_on_and_loses_nothing(
    tmp_path: Path, seed: int
) -> None:
    malice, numbers = Malice(seed, Request), count(1)
    bodies = bodies_of(malice)
    one = Batch.of([b"mine"])
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as other:
        await other.greet("c-other")
        for made in (Open("mine"), Open("q")):
            while isinstance(await asked(other, next(numbers), made), Declined):
                await asyncio.sleep(0.05)
        put = Put("mine", "p", 1, bytes(one.offsets), bytes(one.blob))
        assert isinstance(await asked(other, next(numbers), put), PutDone)
        async with await Stranger.dial(node.address) as stranger:
            await stranger.greet("c-bad")
            for number in range(1, CALLS, 2):
                stranger.send(packed(["call", number, next(bodies)]))
                stranger.say(Call(number + 1, Echo(b"there?")))
                while (answer := await stranger.answer()).number != number + 1:
                    malice.heard(msgspec.to_builtins(answer.body))
                assert answer == Answer(number + 1, Echoed(b"there?"))
        status = await asked(other, next(numbers), Describe("mine"))
        assert isinstance(status, QueueStatus)
        assert (status.ready, status.tail) == (1, 1)
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as other:
        await other.greet("c-other")  # and what it wrote down can be read
        while isinstance(status := await asked(other, next(numbers), Describe("mine")), Declined):
            await asyncio.sleep(0.05)
        assert status.ready == 1


async def asked(stranger: Stranger, number: int, body: Any) -> Any:
    stranger.say(Call(number, body))
    answer = await stranger.answer()
    assert answer.number == number
    return answer.body


async def test_who_guesses_the_token_of_anothers_lease_settles_nothing(tmp_path: Path) -> None:
    numbers, one = count(1), Batch.of([b"mine"])
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as mine:
        await mine.greet("c-mine")
        while isinstance(await asked(mine, next(numbers), Open("q")), Declined):
            await asyncio.sleep(0.05)
        put = Put("q", "p", 1, bytes(one.offsets), bytes(one.blob))
        await asked(mine, next(numbers), put)
        leased = await asked(mine, next(numbers), Get("q", 1, 1 << 20, Duration(0)))
        assert len(leased.secret) == SECRET_BYTES
        where = (Interval(0, 1),)
        async with await Stranger.dial(node.address) as stranger:
            await stranger.greet("c-bad")
            for secret in (b"", bytes(SECRET_BYTES), leased.secret[:-1]):
                for word in (
                    Settle("q", leased.token, done=where, secret=secret),
                    Settle("q", leased.token, back=where, reason="x", dead=True, secret=secret),
                    Settle("q", leased.token, extend=True, secret=secret),
                ):
                    refused = await asked(stranger, next(numbers), word)
                    assert (type(refused), refused.error) == (Declined, "LeaseLost")
                with_it = Settle("q", leased.token, done=where, secret=secret)
                get = Get("q", 1, 1 << 20, Duration(0), with_it)
                assert "is another's" in (await asked(stranger, next(numbers), get)).refused
        status = await asked(mine, next(numbers), Describe("q"))
        assert (status.leased, status.dead, status.done) == (1, 0, 0)
        done = Settle("q", leased.token, done=where, secret=leased.secret)
        assert await asked(mine, next(numbers), done) == Settled(0)


async def test_no_two_leases_have_the_same_secret(tmp_path: Path) -> None:
    numbers, many = count(1), Batch.of([b"x"] * 200)
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as mine:
        await mine.greet("c-mine")
        while isinstance(await asked(mine, next(numbers), Open("q")), Declined):
            await asyncio.sleep(0.05)
        put = Put("q", "p", 1, bytes(many.offsets), bytes(many.blob))
        await asked(mine, next(numbers), put)
        get = Get("q", 1, 1 << 20, Duration(0))
        leases = [await asked(mine, next(numbers), get) for _ in range(200)]
        assert len({one.secret for one in leases}) == 200
        assert [one.token for one in leases] == sorted({one.token for one in leases})


async def test_who_settles_what_another_process_got_says_what_was_drawn_for_it(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as node:
        url = f"snowmelt://{node.address}"
        async with snowmelt.aio.connect(url) as one, snowmelt.aio.connect(url) as other:
            await one.fifo("q").put(b"mine", timeout=20)
            item = await one.fifo("q").get(timeout=20)
            number, secret = int(item.token), item.token.secret
            with pytest.raises(LeaseLost, match="is another's"):
                await other.fifo("q").leased(number, item.position).ack()
            await other.fifo("q").leased(number, item.position, secret).ack()
            assert (await one.fifo("q").stats()).done == 1
