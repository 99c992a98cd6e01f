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

from runtime.network import Stranger, packed, serving
from snowmelt.core.batch import Batch
from snowmelt.core.errors import MessageError
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.membership import GetStatus
from snowmelt.protocols.queue.calls import Describe, Open, Put, PutDone, QueueStatus
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
