"""Who is heard next: nodes before clients, each account for its part, and beats behind nothing."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import thread_time
from types import SimpleNamespace
from typing import Any

import pytest

import snowmelt.aio
from runtime.network import PATIENCE, Serving, Stranger, serving, until
from runtime.test_joining import members
from runtime.test_limits import piece
from snowmelt.core.names import NodeId
from snowmelt.core.node import Expired
from snowmelt.protocols.baton.node import BatonAlarm
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo, Recall, Recalled, Remember
from snowmelt.protocols.membership.messages import Heartbeat
from snowmelt.protocols.multicast.calls import Listen
from snowmelt.runtime import hearing, recent_costs
from snowmelt.runtime.caused import caused
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.hearing import HELD_UP, SLICE_SECONDS, Hearing

ONCE = 0.001
"""What one call costs, in seconds of the clock that these tests have."""


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, processor: float = 1.0) -> None:
        self.now = 0.0
        monkeypatch.setattr(hearing, "perf_counter", lambda: self.now)
        monkeypatch.setattr(recent_costs, "thread_time", lambda: self.now * processor)

    def loop(self) -> Any:
        """A loop in which timers are due at once, and this clock goes on by as much."""
        real = asyncio.get_running_loop()

        def call_later(seconds: float, work: Callable[[], None]) -> Any:
            self.now += seconds
            return real.call_soon(work)

        return SimpleNamespace(call_soon=real.call_soon, call_later=call_later)


class Asking:
    """A connection on which so many calls wait, or more come all the time."""

    def __init__(
        self, clock: Clock, account: str, calls: int, each: float = ONCE, caused: float = 0.0
    ) -> None:
        self.account = account
        self.calls = calls
        self.heard, self.owes = 0, 0.0
        self._clock = clock
        self._each = each
        self._caused = caused

    def hear(self, until: float) -> bool:
        while self.calls:
            self.calls -= 1
            self.heard += 1
            self.owes += self._caused
            self._clock.now += self._each
            if self._clock.now > until:
                break
        return bool(self.calls)


MANY = 1 << 30


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_each_account_has_its_part_however_many_connections_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, all_of = Clock(monkeypatch), Hearing()
    flood = [Asking(clock, "flood", MANY) for _ in range(50)]
    honest = Asking(clock, "shop", MANY)
    for one in (*flood, honest):
        all_of.add(one)
    await turns(100)
    of_flood = sum(one.heard for one in flood)
    assert abs(of_flood - honest.heard) < 0.1 * of_flood, (of_flood, honest.heard)
    assert max(one.heard for one in flood) - min(one.heard for one in flood) < 10


async def test_an_account_pays_by_what_its_calls_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, all_of = Clock(monkeypatch), Hearing()
    dear, cheap = Asking(clock, "flood", MANY, 50 * ONCE), Asking(clock, "shop", MANY)
    all_of.add(dear)
    all_of.add(cheap)
    await turns(500)
    assert abs(50 * dear.heard - cheap.heard) < 0.1 * cheap.heard + 50


async def test_who_is_refused_is_heard_less_while_others_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, all_of = Clock(monkeypatch), Hearing()
    cheap = ONCE / 5
    flood = [Asking(clock, "flood", MANY, cheap, SLICE_SECONDS) for _ in range(4)]
    honest = Asking(clock, "shop", MANY, cheap)
    for one in (*flood, honest):
        all_of.add(one)
    await turns(300)
    of_flood = sum(one.heard for one in flood)
    assert honest.heard > 4 * of_flood > 0, (honest.heard, of_flood)
    honest.calls = 0
    before = of_flood
    await turns(300)
    assert sum(one.heard for one in flood) - before > 300, "alone it is heard as fast as anybody"


async def test_what_a_node_declines_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owed: list[float] = []
    charge = Hearing._charge

    def charged(one: Hearing, account: str, lines: Any, line: Any, *times: float) -> None:
        owed.append(line.owes)
        charge(one, account, lines, line, *times)
        assert line.owes == 0

    monkeypatch.setattr(Hearing, "_charge", charged)
    monkeypatch.setattr(Hearing, "came", Hearing.add)  # nothing is heard at once
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        line = await stack.enter_async_context(await Stranger.dial(node.address))
        await line.greet("c-nonsense")
        listen = Listen("no topic's name", None, 0)
        line.say(*(Call(at, listen) for at in range(1, 41)))
        for _ in range(40):
            assert isinstance((await line.answer()).body, Declined)
        line.say(Call(41, Echo(b"well")))
        assert (await line.answer()).number == 41
    assert sum(owed) == pytest.approx(40 * (SLICE_SECONDS + caused(listen)))


async def test_who_asks_seldom_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, all_of = Clock(monkeypatch), Hearing()
    for number in range(20):
        all_of.add(Asking(clock, f"flood {number}", MANY))
    await turns(50)
    honest = Asking(clock, "shop", 1)
    for _ in range(30):
        honest.calls, before = 1, clock.now
        all_of.add(honest)
        while honest.calls:
            await asyncio.sleep(0)
        assert clock.now - before < 0.1  # one round of all, and not what they have waiting


async def test_nodes_come_first_and_a_turn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, all_of = Clock(monkeypatch), Hearing()
    node, client = Asking(clock, "", MANY), Asking(clock, "flood", MANY)
    all_of.add(client)
    all_of.add(node)
    longest = 0.0
    for _ in range(50):
        before, of_node = clock.now, node.heard
        await asyncio.sleep(0)
        assert node.heard > of_node
        longest = max(longest, clock.now - before)
    assert longest < 0.03
    assert client.heard > node.heard, "and clients are heard all the same"


async def test_clients_wait_while_what_was_heard_before_is_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, all_of, behind = Clock(monkeypatch), Hearing(), True
    all_of.behind = lambda: behind
    node, client = Asking(clock, "", 100), Asking(clock, "shop", 100)
    all_of.add(client)
    all_of.add(node)
    await turns(50)
    assert (node.heard, client.heard) == (100, 0)
    behind = False
    await turns(50)
    assert client.heard == 100


async def test_an_account_rests_while_a_node_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, all_of = Clock(monkeypatch), Hearing()
    node, flood = Asking(clock, "", 0), Asking(clock, "flood", MANY)
    monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(get_running_loop=clock.loop))
    all_of.full(node)
    all_of.add(flood)
    await turns(200)
    part = flood.heard * ONCE / clock.now
    assert 0.3 / HELD_UP < part < 1.5 / HELD_UP, "some are heard, so that nothing stands still"
    honest, then = Asking(clock, "shop", 1, ONCE / 10), clock.now
    all_of.add(honest)
    await turns(2)
    assert honest.heard == 1, "who has asked for little does not rest"
    all_of.reads(node)
    await turns(3)
    heard, then = flood.heard, clock.now
    await turns(50)
    assert (flood.heard - heard) * ONCE > 0.9 * (clock.now - then)


@pytest.mark.parametrize(
    ("processor", "others", "least", "most"),
    [(0.4, True, 0.4, 0.6), (0.4, False, 0.99, 1.01), (1.0, True, 0.9, 1.01)],
)
async def test_who_had_most_rests_where_the_system_holds_this_process_up_and_others_ask(
    monkeypatch: pytest.MonkeyPatch, processor: float, others: bool, least: float, most: float
) -> None:
    clock, all_of = Clock(monkeypatch, processor), Hearing()
    monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(get_running_loop=clock.loop))
    flood, honest = Asking(clock, "flood", MANY), Asking(clock, "shop", 0, ONCE / 10)
    all_of.add(flood)
    waited = 0.0
    for _ in range(300):
        if others:
            honest.calls, before = 1, clock.now
            all_of.add(honest)
            while honest.calls:
                await asyncio.sleep(0)
            waited = max(waited, clock.now - before)
        await turns(3)
    assert least < flood.heard * ONCE / clock.now < most
    assert waited < 0.01, "who had little does not rest"


async def heard_beside(clock: Clock, flood: Asking, *others: Asking) -> float:
    """So many calls a second of a flood are heard while somebody else asks for little."""
    all_of, honest = Hearing(), Asking(clock, "shop", 0, ONCE / 10)
    for one in (flood, *others):
        all_of.add(one)
    for _ in range(300):
        honest.calls = 1
        all_of.add(honest)
        while honest.calls:
            await asyncio.sleep(0)
        await turns(3)
    for one in (flood, *others):
        one.calls = 0
    return flood.heard / clock.now


async def test_who_makes_names_rests_for_what_nodes_say_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = list[float]()
    for of_processor in (0.4, 1.0):
        for owes in (0.0, ONCE / 2):
            clock = Clock(monkeypatch, of_processor)
            monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(get_running_loop=clock.loop))
            flood = Asking(clock, "flood", MANY, ONCE / 5, owes)
            rates.append(await heard_beside(clock, flood))
    held_up, naming, free, naming_freely = rates
    assert naming < held_up / 4
    assert naming_freely > 0.8 * free, "a node that has what it needs serves it"


@pytest.mark.parametrize(("asks", "rests"), [(True, True), (False, False)])
async def test_who_makes_names_rests_though_others_ask_seldom(
    monkeypatch: pytest.MonkeyPatch, asks: bool, rests: bool
) -> None:
    """After a rest it was heard freely for a window, and where nobody else asked in that one."""
    clock, all_of = Clock(monkeypatch, 0.4), Hearing()
    monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(get_running_loop=clock.loop))
    flood, honest = Asking(clock, "flood", MANY, ONCE / 5, ONCE), Asking(clock, "shop", 0, ONCE)
    all_of.add(flood)
    for _ in range(20):
        if asks:
            honest.calls = 1
            all_of.add(honest)
        end = clock.now + 0.5
        while clock.now < end:
            await turns(1)
    assert (flood.heard / clock.now < 400) is rests, flood.heard / clock.now


async def test_who_makes_few_names_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, all_of = Clock(monkeypatch, 0.4), Hearing()
    monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(get_running_loop=clock.loop))
    flood, longest = Asking(clock, "flood", MANY, ONCE), 0.0
    honest = Asking(clock, "shop", 0, ONCE / 10, ONCE / 2)
    all_of.add(flood)
    for _ in range(200):
        honest.calls, before = 1, clock.now
        all_of.add(honest)
        while honest.calls:
            await asyncio.sleep(0)
        longest = max(longest, clock.now - before)
        await turns(5)
    assert longest < 0.01


async def test_what_nodes_say_counts_where_it_is_seen_that_a_process_is_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = list[float]()
    for of_processor in (0.4, 1.0):
        clock = Clock(monkeypatch, of_processor)
        monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(get_running_loop=clock.loop))
        flood, node = Asking(clock, "flood", MANY), Asking(clock, "", MANY)
        shares.append(await heard_beside(clock, flood, node))
    assert shares[0] < 0.7 * shares[1]


class Broken(Asking):
    def hear(self, until: float) -> bool:
        super().hear(until)
        raise ZeroDivisionError


@pytest.mark.parametrize("accounts", [("", "", ""), ("shop", "shop", "shop"), ("a", "b", "c")])
async def test_one_that_raises_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, accounts: tuple[str, ...]
) -> None:
    clock, all_of, raised = Clock(monkeypatch), Hearing(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, what: raised.append(what))
    lines = [Asking(clock, one, 5) for one in accounts]
    lines.insert(1, Broken(clock, accounts[1], 1))
    for one in lines:
        all_of.add(one)
    await turns(20)
    assert [one.heard for one in lines] == [5, 1, 5, 5]
    assert len(raised) == 1


async def test_what_membership_says_does_not_wait_behind_copies(tmp_path: Path) -> None:
    """A node that is sent 40 MB, which nobody reads yet, hears a heartbeat at once."""
    async with serving(tmp_path) as n1, serving(tmp_path, "n2", join=(n1.address,)) as n2:
        await until(lambda: members(n1) == members(n2) == ["n1", "n2"])
        heard: list[str] = []
        door = n1.server._door.heard

        def deliver(source: NodeId, message: Any) -> None:
            heard.append(type(message).__name__)
            if not isinstance(message, type(piece(1, b""))):
                door(source, message)

        n1.server._transport.deliver = deliver
        out = n2.server._transport
        out.send(NodeId("n1"), piece(1, b""))
        await until(lambda: "SnapshotChunk" in heard)
        heard.clear()
        for _ in range(400):
            out.send(NodeId("n1"), piece(1, bytes(100_000)))
        out.send(NodeId("n1"), Heartbeat(1, 1, 1, 1, 0, 0, 0))
        await until(lambda: heard.count("SnapshotChunk") == 400)
        assert heard.index("Heartbeat") < 200


async def test_calls_of_many_connections_do_not_hold_up_nodes(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await until(lambda: node.server.view is not None)
        flood = [
            await stack.enter_async_context(await Stranger.dial(node.address)) for _ in range(20)
        ]
        for at, one in enumerate(flood):
            await one.greet(f"c-{at}")
        turn = longest_turn(node)
        for one in flood:
            one.say(*(Call(at, Echo(b"")) for at in range(2_000)))
        for one in flood:
            for _ in range(2_000):
                await one.answer()
        assert turn() < 0.1


async def test_what_was_said_before_the_end_is_heard(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as other:
        await other.greet("c-other")
        for at in range(20):
            async with await Stranger.dial(node.address) as one:
                await one.greet(f"c-{at}")
                one.say(Call(1, Remember(f"of {at}", b"said")))
                one._writer.close()
        async with asyncio.timeout(PATIENCE):
            for at in range(20):
                answer = None
                while answer != Answer(at, Recalled(f"of {at}", b"said")):
                    other.say(Call(at, Recall(f"of {at}")))
                    answer = await other.answer()


async def test_a_driver_that_has_stopped_is_not_waited_for(tmp_path: Path) -> None:
    """Its last events are never handled: to wait for them would be to go round without end."""
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as one:
        await (await one.greet()).is_served()
        driver, turns = node.server._driver, [0]
        driver.stopped = True
        driver._waiting.extend((Expired(BatonAlarm.BEAT), Expired(BatonAlarm.BEAT)))
        original = node.server._transport.hearing._turn

        def counted() -> None:
            turns[0] += 1
            original()

        node.server._transport.hearing._turn = counted
        one.say(*(Call(at, Echo(b"")) for at in range(100)))
        await asyncio.sleep(0.2)
        assert turns[0] < 50


async def test_what_users_see_is_no_matter_of_nodes(tmp_path: Path) -> None:
    """Where there are users, each answer is looked at for whom it is shown; words of nodes not."""
    users = tmp_path / "users"
    users.write_text("n 0123456789abcdef node\nann fedcba9876543210 admin\n")
    users.chmod(0o600)
    given: dict[str, Any] = {"credentials": Credentials(users=users, user="n")}
    async with (
        serving(tmp_path, **given) as n1,
        serving(tmp_path, "n2", join=(n1.address,), **given) as n2,
    ):
        shown: list[Any] = []
        transport = n1.server._transport
        original = transport.shown
        transport.shown = lambda user, message: (shown.append(message), original(user, message))[1]
        await until(lambda: members(n1) == members(n2) == ["n1", "n2"])
        url = f"snowmelt://{n1.address}"
        async with snowmelt.aio.connect(url, token="fedcba9876543210", user="ann") as cluster:
            await cluster.fifo("q", replicas=2).put(b"one")
        assert shown
        assert {type(one) for one in shown} == {Answer}


def longest_turn(node: Serving) -> Callable[[], float]:
    """Since now, for how long of processor the node heard clients at a stretch."""
    took = [0.0]
    original = node.server._transport.hearing._turn

    def turn() -> None:
        before = thread_time()
        original()
        took.append(thread_time() - before)

    node.server._transport.hearing._turn = turn
    return lambda: max(took)
