"""Users with some rights and the code in hand: they end no node, hold up no other, learn no name.

Each call here is one that no client of the product would make. Before it was mended, each ended a
node, held it up for long, took memory without an end, or reached what its user has no right to.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.network import Serving, Stranger, serving, until
from runtime.test_users import NODES_LINE, OPS, OPS_LINE, SHOP, shown, users
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address
from snowmelt.protocols.baton import calls as baton
from snowmelt.protocols.baton import given_values
from snowmelt.protocols.baton import node as baton_node
from snowmelt.protocols.calling import Call, Declined
from snowmelt.protocols.pool.introducer import POOLS_MAX
from snowmelt.protocols.pool.introductions import Introduce, Introduced
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import Restore
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import TraceItem
from snowmelt.protocols.queue.state.batches import SPREAD
from snowmelt.protocols.queue.state.records import StatusRecord

BOB = "bob-0123456789abcdef"
OWN = " ".join(f"{right}:mine.*,shared" for right in ("put", "get", "peek", "manage"))
OTHER = " ".join(f"{right}:bobs,shared" for right in ("put", "get", "peek"))
LINES = (f"shop {SHOP} {OWN}", f"bob {BOB} {OTHER}", OPS_LINE, NODES_LINE)
SECRETS = {"shop": SHOP, "bob": BOB, "ops": OPS}
HOUR = seconds(3_600)
NOW = Duration(0)
LARGE = 2 << 20
TURN = 0.5
"""A turn on a crowded machine; what is tried here took many seconds."""


class Asker:
    """One client, whose calls are answered in any order."""

    def __init__(self, stream: Stranger) -> None:
        self.stream = stream
        self._numbers = count(1)

    async def ask(self, body: Any) -> Any:
        (told,) = await self.ask_many([body])
        return told

    async def ask_many(self, bodies: list[Any]) -> list[Any]:
        numbers = [next(self._numbers) for _ in bodies]
        self.stream.say(*map(Call, numbers, bodies))
        found: dict[int, Any] = {}
        while not found.keys() >= set(numbers):
            answer = await self.stream.answer()
            found[answer.number] = answer.body
        return [found[one] for one in numbers]

    async def opened(self, queue: str, **settings: Any) -> str:
        """Makes a queue; the node that leads it."""
        async with asyncio.timeout(20):
            while isinstance(
                told := await self.ask(calls.Open(queue, QueueSettings(**settings))), Declined
            ):
                await asyncio.sleep(0.05)
        return str(told.master.node)

    async def status(self, queue: str) -> calls.QueueStatus:
        told = await self.ask(calls.Describe(queue))
        assert isinstance(told, calls.QueueStatus), told
        return told


@asynccontextmanager
async def greeted(node: Serving, user: str = "shop", name: str = "") -> AsyncIterator[Asker]:
    async with await Stranger.dial(node.address) as stream:
        yield Asker(await stream.greet(name or f"c-{user}", user=user, token=SECRETS[user]))


@asynccontextmanager
async def one_node(folder: Path) -> AsyncIterator[Serving]:
    async with serving(folder, credentials=shown(users(folder, *LINES))) as node:
        yield node


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncIterator[dict[str, Serving]]:
    shows = shown(users(folder, *LINES))
    async with (
        serving(folder, credentials=shows) as one,
        serving(folder, "n2", join=(one.address,), credentials=shows) as other,
    ):
        await until(lambda: all(_members(each) == 2 for each in (one, other)))
        yield {"n1": one, "n2": other}


def _members(node: Serving) -> int:
    view = node.server.view
    return len(view.members) if view and node.server.current else 0


def put(queue: str, number: int, items: int = 1, size: int = 1, **more: Any) -> calls.Put:
    batch = Batch.of([bytes(size)] * items)
    producer = more.pop("producer", "p")
    return calls.Put(queue, producer, number, bytes(batch.offsets), bytes(batch.blob), **more)


def turn_of(node: Serving) -> float:
    return node.server.statistics().longest_turn_cpu


# --- steps and publications -----------------------------------------------------------------------


@pytest.mark.parametrize("target", ["mine.home", "mine.other"])
async def test_a_step_that_names_a_batch_twice_puts_it_once(tmp_path: Path, target: str) -> None:
    async with one_node(tmp_path) as node, greeted(node) as shop:
        for name in ("mine.home", target):
            await shop.opened(name)
        receipt = await shop.ask(put(target, 1, hold=HOUR))
        shares = (calls.Share(target, (receipt, receipt), 0),)
        commit = calls.Commit("mine.home", "p", 7, (), shares, patience=seconds(5))
        assert await shop.ask(commit) == calls.Committed()
        assert (await shop.status(target)).ready == 1


@pytest.mark.parametrize("kind", ["publish", "step"])
async def test_each_staged_batch_is_looked_at_once_however_many_receipts_name_it(
    tmp_path: Path, kind: str
) -> None:
    async with one_node(tmp_path) as node, greeted(node) as shop:
        await shop.opened("mine.q")
        some = await shop.ask_many([put("mine.q", at, hold=HOUR) for at in range(1_000)])
        many = (calls.Receipt(some[0].stream, some[0].first, some[-1].stop, 1),) * 5_000
        ask: Any = calls.PublishStaged("mine.q", "p", 7_000, many)
        if kind == "step":
            ask = calls.Commit("mine.q", "p", 7_000, (), (calls.Share("mine.q", many, 0),))
        told = await shop.ask(ask)
        assert (type(told), (await shop.status("mine.q")).ready) in (
            (Declined, 0),
            (calls.Committed, 1_000),
        )
        assert turn_of(node) < TURN


async def test_a_step_in_a_queue_with_partitions_takes_no_more_numbers_than_it_has_items(
    tmp_path: Path,
) -> None:
    async with one_node(tmp_path) as node, greeted(node) as shop:
        await shop.opened("mine.p", partitions=2)
        receipt = await shop.ask(put("mine.p/1", 1, hold=HOUR))
        for stop in (1 << 61, 1_000_000):
            far = calls.Receipt(receipt.stream, 0, stop, 1)
            shares = (calls.Share("mine.p/1", (receipt, far), 0),)
            told = await shop.ask(calls.Commit("mine.p/1", "p", stop, (), shares, patience=HOUR))
        assert told == calls.Committed()
        assert isinstance(told := await shop.ask(put("mine.p/1", 2)), calls.PutDone)
        assert told.start < 100


async def test_calls_that_wait_for_one_step_are_few(tmp_path: Path) -> None:
    async with one_node(tmp_path) as node, greeted(node) as shop:
        await shop.opened("shared")
        await shop.opened("mine.full", items_max=1)
        await shop.ask(put("mine.full", 1))
        receipt = await shop.ask(put("mine.full", 2, hold=HOUR))
        commit = calls.Commit(
            "shared", "p", 7, (), (calls.Share("mine.full", (receipt,), 0),), patience=HOUR
        )
        shop.stream.say(*[Call(number, commit) for number in range(1_000, 1_200)])
        answers = [await shop.stream.answer() for _ in range(200 - 64)]
        assert {one.body for one in answers} == {calls.Committed(1)}


# --- a number of a call ---------------------------------------------------------------------------


async def test_what_waits_goes_with_its_client_though_its_number_was_used_again(
    tmp_path: Path,
) -> None:
    """The answer to the other call would free what the first one takes while it waits."""
    async with one_node(tmp_path) as node:
        async with greeted(node) as shop:
            await shop.opened("mine.full", items_max=1)
            await shop.ask(put("mine.full", 1))
            shop.stream.say(Call(500, put("mine.full", 2, size=LARGE, patience=HOUR)))
            shop.stream.say(Call(500, calls.Describe("mine.full")), Call(500, put("mine.full", 1)))
            assert (await shop.status("mine.full")).waiting_puts == 1
        async with greeted(node, "ops") as ops, asyncio.timeout(10):
            while (await ops.status("mine.full")).waiting_puts:
                await asyncio.sleep(0.05)


async def test_another_call_under_the_number_of_a_large_put_is_not_heard(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as nodes, greeted(nodes["n1"]) as shop:
        leader = nodes[await shop.opened("mine.big", replicas=1, inline_max=0)]
        async with greeted(leader, name="c-again") as again:
            for number in range(500, 510):
                again.stream.say(
                    Call(number, put("mine.big", number, size=LARGE)),
                    *[Call(number, calls.Describe("mine.big"))] * 3,
                )
                while not isinstance((await again.stream.answer()).body, calls.PutDone):
                    pass
            assert (await again.status("mine.big")).ready == 10


# --- what others have -----------------------------------------------------------------------------


async def test_the_queue_that_decides_a_step_takes_a_right(tmp_path: Path) -> None:
    """It would remember a producer for ever, for each step that it gives up."""
    async with one_node(tmp_path) as node, greeted(node, "ops") as ops, greeted(node) as shop:
        await ops.opened("secret")
        await shop.opened("mine.q")
        await shop.ask(put("mine.q", 1))
        leased = await shop.ask(calls.Get("mine.q", 1, 100, NOW))
        settle = calls.Settle("mine.q", leased.token, (Interval(0, 1),), secret=leased.secret)
        for home, error in (("secret", "AccessDenied"), ("secret/1", "AccessDenied"), ("", "")):
            told = await shop.ask(put("mine.q", 2, hold=HOUR, home=home))
            assert getattr(told, "error", "") == error
            if home:
                told = await shop.ask(calls.Promise("mine.q", "p", 1, home, (settle,)))
                assert told.error == error
        assert isinstance(await shop.ask(put("mine.q", 3, hold=HOUR, home="mine.x")), calls.Receipt)


async def test_who_fetches_makes_no_node_refuse_a_put_of_others(tmp_path: Path) -> None:
    """A node that is asked for bodies before they came has not refused them."""
    async with two_nodes(tmp_path) as nodes, greeted(nodes["n1"], "ops") as ops:
        leader = nodes[await ops.opened("shared", replicas=1, inline_max=0)]
        over = asyncio.Event()

        async def fetches(node: Serving, term: int) -> None:
            spans = [
                calls.Span(0, 1, f"spread/{SPREAD + at:x}/{term}", SPREAD + at, ())
                for at in range(40)
            ]
            async with greeted(node, "bob", f"c-{node.server.config.id}") as bob:
                while not over.is_set():
                    await bob.ask_many([calls.Fetch("shared", one, 1) for one in spans])

        async with greeted(leader) as shop, asyncio.TaskGroup() as group:
            term = (await shop.status("shared")).term
            for node in nodes.values():
                group.create_task(fetches(node, term))
            for number in range(1, 21):
                told = await shop.ask(put("shared", number, size=LARGE))
                assert isinstance(told, calls.PutDone), told
            over.set()


async def test_who_peeks_hears_of_no_group_of_others(tmp_path: Path) -> None:
    async with (
        one_node(tmp_path) as node,
        greeted(node) as shop,
        greeted(node, "bob") as bob,
        greeted(node, "ops") as ops,
    ):
        await shop.opened("shared")
        await shop.ask(TraceItem("shared", 0))
        await shop.ask(put("shared", 1, 3))
        await shop.ask(calls.Assign("shared", "books", 0, "r", 0, 1, 100))
        for asker, group in ((bob, ""), (shop, "books"), (ops, "shop/books")):
            told = await asker.ask(TraceItem("shared", 0))
            assert (told.status.group, told.events[-1].who) == (group, group)


# --- shares ---------------------------------------------------------------------------------------


async def test_nobody_has_all_pools(tmp_path: Path) -> None:
    here = Address("127.0.0.1", 9)
    async with one_node(tmp_path) as node, greeted(node) as shop, greeted(node, "bob") as bob:
        await shop.opened("mine.q")  # there is a view
        some = [Introduce(f"mine.{at}", here, "x", True, True) for at in range(POOLS_MAX)]
        refused = [one for one in await shop.ask_many(some) if type(one) is Declined]
        assert 100 < len(refused) < 300
        told = await bob.ask(Introduce("bobs", here, "x", True, True))
        assert isinstance(told, Introduced)


async def taken(asker: Asker, name: str, ticket: int, value: bytes) -> Any:
    """Gives a baton back with a value, or says why it can't."""
    got: Any = calls.Leased
    while not isinstance(got, baton.Granted):
        got = await asker.ask(baton.Acquire(name, ticket, seconds(2)))
    told = await asker.ask(baton.Release(name, ticket, got.fence, got.where, value))
    if isinstance(told, Declined):
        assert isinstance(
            await asker.ask(baton.Release(name, ticket, got.fence, got.where, None)), baton.Released
        )
    return told


async def test_nobody_has_all_memory_for_values_of_batons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_values, "VALUES_BYTES", 200_000)
    async with one_node(tmp_path) as node, greeted(node) as shop, greeted(node, "bob") as bob:
        told = [await taken(shop, f"mine.{at}", at + 1, bytes(20_000)) for at in range(10)]
        full = [type(one) is Declined for one in told]
        assert full == [False] * 7 + [True] * 3
        assert isinstance(await taken(bob, "bobs", 1, bytes(20_000)), baton.Released)
        assert isinstance(await taken(shop, "mine.0", 99, b""), baton.Released)
        assert isinstance(await taken(shop, "mine.8", 100, bytes(15_000)), baton.Released)


async def test_nobody_has_all_places_in_lines_of_batons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baton_node, "ALL_PLACES_MAX", 100)
    async with one_node(tmp_path) as node, greeted(node) as shop, greeted(node, "bob") as bob:
        some = [baton.Acquire(f"mine.{at % 5}", at + 1, NOW) for at in range(300)]
        refused = [one for one in await shop.ask_many(some) if type(one) is Declined]
        assert 200 < len(refused) < 240
        assert isinstance(await bob.ask(baton.Acquire("bobs", 1, seconds(2))), baton.Granted)


# --- a token --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [(1 << 47) + 1, 1 << 63, [1] * 300])
async def test_a_backup_with_positions_that_no_queue_has_is_refused(
    tmp_path: Path, tail: Any
) -> None:
    record = msgspec.msgpack.encode(StatusRecord(tail, 0, 0, paused=False, redriving=0))
    async with one_node(tmp_path) as node, greeted(node, "ops") as ops:
        await ops.opened("q", priorities=3 if isinstance(tail, list) else 1)
        told = await ops.ask(Restore("q", 7, 0, (), ((b"s", record),), last=True))
        assert (type(told), told.error) == (Declined, "BadOption")
        assert isinstance(await ops.ask(put("q", 1)), calls.PutDone)
