"""Absurd words to a node that introduces: each has a clear answer, soon, and harms nobody."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from greetings import whole
from runtime.network import Serving, Stranger, cut_off, packed, reads, serving, until
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.pool.introducer import POOLS_MAX
from snowmelt.protocols.pool.introductions import (
    DescribePool,
    Introduce,
    Introduced,
    ListPools,
    PoolStatus,
)

ME = whole("c-stranger")
SOON = 5.0
HERE = Address("127.0.0.1", 5000)
WORD = Introduce("frames", HERE, "camera", produces=True, consumes=True, rate=10.0)


def word(**more: Any) -> Introduce:
    return msgspec.structs.replace(WORD, **more)


ABSURD = {
    "a pool without a name": word(pool=""),
    "a pool with a slash": word(pool="a/b"),
    "a pool with a line feed at the end": word(pool="a\n"),
    "a pool with a long name": word(pool="p" * 101),
    "a description of no pool": DescribePool("\0"),
    "a description of a huge name": DescribePool("x" * (1 << 20)),
    "a name with an escape": word(name="\x1b[2J"),
    "a name with markup": word(name="[red]"),
    "a rate that is no number": word(rate=math.nan),
    "an endless rate": word(rate=math.inf),
    "a rate below zero": word(rate=-math.inf),
    "a rate that sums to no number": word(rate=1.7e308),
    "fewer than no objects": word(stock=-1),
    "more objects than there can be": word(stock=2**64 - 1),
    "fewer than no producers": word(fan_out=-(2**63)),
    "more producers than there can be": word(fan_out=2**64 - 1),
    "an address without a host": word(address=Address("", 1)),
    "an address with a NUL": word(address=Address("a\0b", 1)),
    "an address with a slash": word(address=Address("a/b", 1)),
    "an address with a word in brackets": word(address=Address("[bold]", 1)),
    "a huge host": word(address=Address("h" * (1 << 20), 1)),
    "a huge port": word(address=Address("h", 2**64 - 1)),
    "no port": word(address=Address("h", 0)),
    "more known than there can be": word(known=(NodeId("c-1"),) * 10_001),
}
UNREADABLE = {
    "a word cut short": ["pool.introduce", "frames"],
    "a list for a name": ["pool.introduce", ["frames"], {"host": "h", "port": 1}, "", True, True],
    "a word for yes": ["pool.introduce", "frames", {"host": "h", "port": 1}, "", "yes", True],
    "an address as text": ["pool.introduce", "frames", "h:1", "", True, True],
    "an answer for a question": ["pool.introduced", 1, True, 1],
}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Serving, Stranger]]:
    """A process that is in a pool, as producer and consumer."""
    async with serving(folder) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet()
        while isinstance(await told(stranger, WORD), Declined):  # until it has a view
            await asyncio.sleep(0.05)
        yield node, stranger


async def told(stranger: Stranger, request: Any) -> Any:
    stranger.say(Call(7, request))
    answer = await stranger.answer()
    assert isinstance(answer, Answer)
    return answer.body


async def state(stranger: Stranger) -> tuple[list[tuple[str, str, float]], list[str]]:
    """The pool as others see it, after the stranger has said that it lives."""
    await told(stranger, WORD)
    now: PoolStatus = await told(stranger, DescribePool("frames"))
    return [(one.id, one.name, one.rate) for one in now.producers], list(now.consumers)


async def test_an_absurd_word_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (node, stranger):
        before = await state(stranger)
        assert before == ([(ME, "camera", 10.0)], [ME])
        for name, absurd in ABSURD.items():
            if not reads(absurd):
                await cut_off(node.address, absurd)
                assert await state(stranger) == before, name
                continue
            begun = time.process_time()
            answer = await told(stranger, absurd)
            assert time.process_time() - begun < SOON, name
            assert isinstance(answer, Declined), (name, answer)
            assert (answer.error, "allowed" in answer.text) == ("BadOption", True), name
            assert await state(stranger) == before, name


async def test_a_word_that_does_not_read_ends_the_connection_and_no_other(tmp_path: Path) -> None:
    async with served(tmp_path) as (node, stranger):
        for name, body in UNREADABLE.items():
            async with await Stranger.dial(node.address) as other:
                await other.greet("c-other")
                other.send(packed(["call", 1, body]))
                assert (await other.goodbye()).error == "MessageError", name
        assert await state(stranger) == ([(ME, "camera", 10.0)], [ME])


async def test_a_hundred_thousand_acquaintances_are_refused_while_others_are_served(
    tmp_path: Path,
) -> None:
    async with (
        served(tmp_path) as (node, stranger),
        await Stranger.dial(node.address) as other,
    ):
        await other.greet("c-other")
        begun = time.process_time()
        stranger.say(Call(7, word(known=tuple(NodeId(f"c-{one}") for one in range(10**5)))))
        await other.is_served()
        answer = (await stranger.answer()).body
        assert isinstance(answer, Declined), answer
        assert answer.text == "known is '100000 producers'; allowed: 10000 at most"
        assert time.process_time() - begun < 2 * SOON


async def test_ten_thousand_strangers_acquaintances_are_not_kept(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, stranger):
        known = tuple(NodeId(f"\0/{one}") for one in range(10_000))
        answer = await told(stranger, word(known=known, fan_out=5))
        assert isinstance(answer, Introduced)
        assert answer.known == ()  # their places are kept for them until it is settled
        answer = await told(stranger, word(fan_out=5))
        assert answer.known == (ME,)


async def test_more_pools_than_may_be_are_refused_and_those_there_are_go_on(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (_, stranger):
        for number in range(1, most := POOLS_MAX * 4 // 5):
            assert isinstance(await told(stranger, word(pool=f"p{number}")), Introduced), number
            if number % 100 == 0:
                await state(stranger)
        assert (await told(stranger, word(pool="one-more"))).error == "Full"
        assert (await state(stranger))[1] == [ME]
        assert len((await told(stranger, ListPools())).pools) == most


async def test_who_hangs_up_is_forgotten_soon(tmp_path: Path) -> None:
    async with served(tmp_path) as (node, stranger):
        async with await Stranger.dial(node.address) as other:
            await other.greet("c-other")
            await told(other, word(name="second"))
            assert len((await state(stranger))[0]) == 2
            hung_up = time.process_time()
        await until(lambda: node.server.statistics().connections_total == 2)
        while len((await state(stranger))[0]) == 2:
            assert time.process_time() - hung_up < 2.0
            await asyncio.sleep(0.02)
        assert await state(stranger) == ([(ME, "camera", 10.0)], [ME])
