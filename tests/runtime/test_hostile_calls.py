"""Every call there is, with every field out of bounds: a node refuses it, and goes on for others.

What is sent is made of the messages' own types, so a call that is new tomorrow is attacked, too.
"""

import asyncio
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from runtime.network import Stranger, packed, serving
from snowmelt.core.batch import Batch
from snowmelt.core.errors import MessageError
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.fifo.calls import Describe, Open, Put, PutDone, QueueStatus
from snowmelt.protocols.membership import GetStatus
from snowmelt.protocols.priority.calls import Open as PriorityOpen
from snowmelt.wire.codec import Codec, Request

CALLS = 4_000
NUMBERS = (
    0,
    1,
    2,
    3,
    100,
    65_535,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -1,
    -(2**31),
    -(2**63),
    2**64 - 1,
)
NAMES = ("q", "p", "a.b", "n1", "n9", "", "q" * 64, "q" * 65, "a\0b", "a/b", "é" * 40, "n1/1/1")
EDGES = tuple(struct.pack("<3i", *one) for one in ((0, 1, 2), (0, 9, 1), (-1, 2**31 - 1, -(2**31))))
BYTES = (
    b"",
    bytes(4),
    *EDGES,
    b"\x81\xa1k\xa1v",
    b"\x91" * 500,
    b"\xdd\xff\xff\xff\xff",
    bytes(900),
)
FEW = (0, 0, 1, 1, 2, 3, 300)


class Malice:
    """Makes calls; what nodes answer, it takes up: their lives, tokens and positions."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._heard: list[Any] = []
        self._kinds = [one for kind in get_args(Request) for one in _structs(kind)]

    def call(self) -> Any:
        """One that reads as a call; what does not is another test's."""
        while True:
            body = self._made(self._chance.choice(self._kinds))
            try:
                data = msgspec.msgpack.encode(["call", 1, body])
                Codec.for_callers().decode(data)
            except (MessageError, OverflowError):
                continue
            return body

    def heard(self, told: Any) -> None:
        """Takes up the numbers and names of an answer."""
        if isinstance(told, int | str) and not isinstance(told, bool) and told != "mine":
            self._heard = [*self._heard[-500:], told]
        elif isinstance(told, list | tuple):
            for one in told[:20]:
                self.heard(one)

    def _made(self, kind: Any, depth: int = 0) -> Any:
        match kind:
            case inspect.StructType():
                fields = [self._made(one.type, depth + 1) for one in kind.fields]
                return fields if kind.tag is None else [kind.tag, *fields]
            case inspect.UnionType():
                return self._made(self._chance.choice(kind.types), depth)
            case inspect.VarTupleType():
                few = self._chance.choice(FEW if depth < 4 else FEW[:4])
                some = [self._made(kind.item_type, depth + 1) for _ in range(min(few, 9))]
                return [self._chance.choice(some) for _ in range(few)]
            case inspect.TupleType():
                return [self._made(one, depth + 1) for one in kind.item_types]
            case inspect.IntType():
                return self._number(kind)
            case inspect.StrType():
                return self._one_of(NAMES, str)
            case inspect.BytesType():
                return self._chance.choice(BYTES)
            case inspect.FloatType():
                return self._chance.choice((0.0, 0.5, 1.0))
            case inspect.BoolType():
                return self._chance.random() < 0.5
            case inspect.NoneType():
                return None
        raise AssertionError(kind)

    def _number(self, kind: inspect.IntType) -> int:
        number: int = self._one_of(NUMBERS, int)
        lowest = -(2**63) if kind.ge is None else kind.ge
        return max(lowest, number if kind.le is None else min(number, kind.le))

    def _one_of(self, usual: tuple[Any, ...], kind: type) -> Any:
        known = [one for one in self._heard if type(one) is kind]
        return self._chance.choice(known if known and self._chance.random() < 0.4 else usual)


def _structs(kind: Any) -> Iterator[inspect.Type]:
    for one in get_args(kind) or (kind,):
        if one is not GetStatus:  # it has no fields, and its answer no bounds
            yield inspect.type_info(one)


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_a_client_asks_a_node_goes_on_and_loses_nothing(
    tmp_path: Path, seed: int
) -> None:
    malice, numbers = Malice(seed), count(1)
    one = Batch.of([b"mine"])
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as other:
        await other.greet("c-other")
        for made in (Open("mine"), Open("q"), PriorityOpen("p")):
            while isinstance(await asked(other, next(numbers), made), Declined):
                await asyncio.sleep(0.05)
        put = Put("mine", "p", 1, bytes(one.offsets), bytes(one.blob))
        assert isinstance(await asked(other, next(numbers), put), PutDone)
        async with await Stranger.dial(node.address) as stranger:
            await stranger.greet("c-bad")
            for number in range(1, CALLS, 2):
                stranger.send(packed(["call", number, malice.call()]))
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
