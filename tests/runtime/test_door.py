"""Who may ask what: each call by a user with each right, over a real connection, both ways."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from greetings import whole
from runtime.network import Serving, Stranger, serving, until
from snowmelt.core.instant import seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.users import ANYBODY, Permission, Right, User
from snowmelt.protocols.baton import calls as baton
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import messages as echo
from snowmelt.protocols.membership import messages as membership
from snowmelt.protocols.multicast import calls as multicast
from snowmelt.protocols.pool import introductions as pool
from snowmelt.protocols.queue.api import backups, calls, deletes, drains, statuses
from snowmelt.protocols.queue.api.schedules import ListSchedules, Schedule, Unschedule, What
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.runtime.door import LINES_MAX
from snowmelt.wire.codec import Request, Response
from snowmelt.wire.rights import OWN

AT = baton.HeldAt(NodeId("n1"), 1, Address("127.0.0.1", 1))
SPAN = calls.Span(0, 1, "n1/1/1", 0, ())
ANY = "put get peek manage"
ALL = (Right.ADMIN, Right.NODE)
ONE = b"\0\0\0\0\1\0\0\0"
CASES: list[tuple[Any, str]] = [
    (membership.GetStatus(), "all"),
    (membership.Forget(NodeId("n9")), ""),
    (drains.Drain(undo=True), ""),
    (echo.Echo(b"x"), "all"),
    (echo.Remember("x", b"x"), ""),
    (echo.Recall("x"), ""),
    (calls.Open("q"), ANY),
    (calls.Put("q", "p", 1, ONE, b"x"), "put"),
    (calls.PublishStaged("q", "p", 2, ()), "put"),
    (calls.Plan("q", "p", 3, (calls.Share("q", (), 0),)), "put"),
    (calls.Commit("q", "p", 4, (calls.Settle("q", 7),), ()), "get"),
    (calls.Commit("q", "p", 5, (), (calls.Share("q", (), 0),)), "put"),
    (calls.Promise("q", "p", 6, "q", ()), "get"),
    (calls.Get("q", 1, 100, 0), "get"),
    (calls.CancelGet("q", 7), "get"),
    (calls.Settle("q", 7), "get"),
    (calls.Fetch("q", SPAN, 100), "get peek"),
    (calls.Peek("q", 1, 100), "peek"),
    (calls.Select("q", 1), "peek"),
    (calls.Assign("q", "g", 0, "r", 0, 1, 100), "get"),
    (calls.Locate("q", "g", 1, 0, 1), "get"),
    (calls.Survey("q", 0, 1), "get peek"),
    (calls.ReleaseGroup("q", "g"), "get"),
    (calls.ListGroups("q"), "get peek manage"),
    (calls.Alter("q", (("items_max", 9),)), "manage"),
    (calls.Purge("q"), "manage"),
    (calls.Pause("q", paused=False), "manage"),
    (calls.Redrive("q"), "manage"),
    (Schedule("q", "tick", What(b"x", "1s", interval=seconds(1))), "manage"),
    (Unschedule("q", "tick"), "manage"),
    (ListSchedules("q"), ANY),
    (calls.Describe("q"), ANY),
    (statuses.ListQueues(), "all"),
    (statuses.Overview(), "all"),
    (statuses.ListConsumers("q"), ""),
    (statuses.DescribeItem("q", 0), ""),
    (statuses.ShowItem("q", 0), "peek"),
    (statuses.PeekHeld("q", 1, 100), "peek"),
    (statuses.TraceItem("q", 0), "peek"),
    (statuses.ChangeItem("q", 0, drop=True), "manage"),
    (backups.Save("q", 1, 0, over=True), ""),
    (backups.Restore("q", 1, 0), ""),
    (pool.Introduce("q", AT.address, "x", produces=True, consumes=False), "put"),
    (pool.Introduce("q", AT.address, "x", produces=False, consumes=True), "get"),
    (pool.Introduce("q", AT.address, "x", produces=False, consumes=False, gone=True), "put get"),
    (pool.ListPools(), "all"),
    (pool.DescribePool("q"), ANY),
    (baton.Acquire("q", 1, 0), "get"),
    (baton.Renew("q", 9, 9, AT), "get"),
    (baton.RenewMany((baton.Holding("q", 9, 9),), AT), "get"),
    (baton.SaveValue("q", 9, 9, AT, b""), "get"),
    (baton.Release("q", 1, 0, None, None), "get"),
    (baton.GetBaton("q"), ANY),
    (baton.ListBatons(), "all"),
    (baton.LookAtBatons(), "all"),
    (baton.ResetBaton("q"), "manage"),
    (multicast.Publish("q", 1, (b"x",), 0), "put"),
    (multicast.Listen("q", None, 0), "get"),
    (deletes.Delete("q"), "manage"),
]


def user(*rights: str) -> User:
    return User("shop", tuple(map(Permission.parse, rights)))


class Shop(Stranger):
    """A connection of a user."""

    number = 0

    async def ask(self, call: Any) -> Any:
        self.number += 1
        self.say(Call(self.number, call))
        while True:
            answer: Answer[Any] = await self.answer()
            if answer.number == self.number:
                return answer.body


async def shop(stack: AsyncExitStack, node: Serving, who: User, name: str = "c-shop") -> Shop:
    line = await stack.enter_async_context(await Shop.dial(node.address))
    await line.greet(name)
    transport = node.server._transport
    assert transport is not None
    await until(lambda: any(one.peer == whole(name) for one in transport.connections()))
    for one in transport.connections():
        if one.peer == whole(name):
            one.user = who
    return line


def is_refused(answer: Any) -> bool:
    return isinstance(answer, Declined) and answer.error == "AccessDenied"


async def current(node: Serving) -> None:
    await until(lambda: node.server.current)


def test_each_call_of_the_wire_is_tried_here() -> None:
    assert {type(call) for call, _ in CASES} == {*get_args(Request)}


async def test_each_call_by_each_right(tmp_path: Path) -> None:
    wrong: list[str] = []
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        for right in Right:
            own = right.value if right in ALL else f"{right.value}:q"
            other = own if own == right.value else f"{right.value}:q2"
            its = await shop(stack, node, user(own), f"c-{right.value}")
            others = await shop(stack, node, user(other), f"c-{right.value}-2")
            anybody = await shop(stack, node, ANYBODY, f"c-{right.value}-3")
            await anybody.ask(calls.Open("q", QueueSettings()))
            for call, may in CASES:
                allowed = may == "all" or right in ALL or right.value in may.split()
                if is_refused(answer := await its.ask(call)) is allowed:
                    wrong.append(f"{right.value}: {call}: {answer}")
                allowed = may == "all" or right in ALL
                if is_refused(answer := await others.ask(call)) is allowed:
                    wrong.append(f"{right.value} of another: {call}: {answer}")
        for call, _ in CASES:
            if is_refused(answer := await anybody.ask(call)):
                wrong.append(f"anybody: {call}: {answer}")
    assert not wrong, "\n".join(wrong)


async def test_a_refusal_names_the_user_the_right_and_the_queue_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        ops = await shop(stack, node, ANYBODY, "c-ops")
        await ops.ask(calls.Open("q", QueueSettings()))
        await ops.ask(calls.Put("q", "p", 1, ONE, b"x"))
        line = await shop(stack, node, user("put:q"))
        assert await line.ask(calls.Purge("q")) == Declined(
            "AccessDenied",
            "user 'shop' needs the right manage:q for Purge",
        )
        assert (await ops.ask(calls.Describe("q"))).ready == 1
        assert node.server.statistics().refused == {"Purge": 1}


async def test_what_else_a_call_names_is_asked_as_well(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        line = await shop(stack, node, user("put:q", "get:q"))
        others = calls.Settle("secret", 7)
        for call in (
            calls.Get("q", 1, 100, 0, others),
            calls.Plan("q", "p", 3, (calls.Share("q", (), 0), calls.Share("secret", (), 0))),
            baton.RenewMany((baton.Holding("q", 9, 9), baton.Holding("secret", 9, 9)), AT),
        ):
            answer = await line.ask(call)
            assert is_refused(answer), call
            assert ":secret" in answer.text


async def test_a_partition_is_asked_about_by_the_right_on_its_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        line = await shop(stack, node, user("peek:q"))
        assert not is_refused(await line.ask(calls.Describe("q/3")))
        assert is_refused(await line.ask(calls.Describe("q2/3")))


async def test_only_who_may_manage_has_a_queue_made(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        puts = await shop(stack, node, user("put:q"), "c-puts")
        for call in (calls.Open("q"), calls.Open("q", QueueSettings())):
            answer = await puts.ask(call)
            assert is_refused(answer)
            assert "manage:q" in answer.text
        answer = await puts.ask(calls.Open("q", make=False))
        assert answer.error == "NoSuchQueue"
        makes = await shop(stack, node, user("manage:q"), "c-makes")
        assert isinstance(await makes.ask(calls.Open("q", QueueSettings())), calls.Opened)
        for call in (calls.Open("q"), calls.Open("q", QueueSettings())):
            assert isinstance(await puts.ask(call), calls.Opened)
        answer = await puts.ask(calls.Open("q", QueueSettings(items_max=9)))
        assert answer.error == "QueueExists"
        assert "max_items" in answer.text
        assert isinstance(await puts.ask(calls.Put("q", "p", 1, ONE, b"x")), calls.PutDone)


async def test_only_an_admin_learns_which_clients_had_an_item(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        ops = await shop(stack, node, user("admin"), "c-ops")
        await ops.ask(calls.Open("q", QueueSettings()))
        await ops.ask(calls.Put("q", "p", 1, ONE, b"x"))
        await ops.ask(calls.Get("q", 1, 100, 0))
        some = await shop(stack, node, user("peek:q"), "c-some")
        trace = statuses.TraceItem("q", 0, names=True)
        seen, known = [await line.ask(trace) for line in (some, ops)]
        assert (seen.status.client, seen.events[0].who) == ("", "")
        assert (known.status.client, known.events[0].who) == (whole("c-ops"), "p")


async def test_lists_show_what_a_user_may_see(tmp_path: Path) -> None:
    names = ["in.a", "in.b", "secret"]
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        ops = await shop(stack, node, ANYBODY, "c-ops")
        for name in names:
            await ops.ask(calls.Open(name, QueueSettings()))
            await ops.ask(baton.Acquire(name, 1, 0))
            await ops.ask(pool.Introduce(name, AT.address, "x", produces=True, consumes=False))
        some = await shop(stack, node, user("peek:in.*"), "c-some")
        none = await shop(stack, node, user("put:others"), "c-none")
        for line, seen in ((ops, names), (some, names[:2]), (none, [])):
            assert [*(await line.ask(statuses.ListQueues())).names] == seen
            assert [one.queue for one in (await line.ask(statuses.Overview())).rows] == seen
            assert [*(await line.ask(baton.ListBatons())).names] == seen
            looks = await line.ask(baton.LookAtBatons())
            assert [one.name for one in looks.statuses] == seen
            assert [one.name for one in (await line.ask(pool.ListPools())).pools] == seen
        wider = await some.ask(statuses.ListQueues(("*",)))
        assert [*wider.names] == names[:2]


async def test_only_an_admin_learns_who_is_connected(tmp_path: Path) -> None:
    from snowmelt.wire.framing import Kind, framed  # noqa: PLC0415

    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        line = await shop(stack, node, user("admin"), "c-ops")
        line.send(framed(Kind.INQUIRE, b""))
        kind, _ = await line.frame()
        assert kind is Kind.INFORM
        line = await shop(stack, node, user("put"))
        line.send(framed(Kind.INQUIRE, b""))
        assert (await line.goodbye()).error == "AccessDenied"


async def test_the_audit_log_has_who_from_where_what_and_on_what(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="snowmelt.audit")
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        line = await shop(stack, node, user("manage:q"))
        await line.ask(calls.Purge("q"))
        for _ in range(LINES_MAX["refused"] + 40):
            await line.ask(calls.Purge("secret"))
        await asyncio.sleep(0)
    told = [one for one in caplog.records if one.name == "snowmelt.audit"]
    allowed, *refused = told
    fields = {"user": "shop", "client": whole("c-shop"), "asked": "Purge"}
    assert allowed.event == "allowed"  # type: ignore[attr-defined]
    assert allowed.fields.items() >= (fields | {"of": "q"}).items()  # type: ignore[attr-defined]
    assert refused[0].event == "refused"  # type: ignore[attr-defined]
    assert refused[0].fields.items() >= (fields | {"of": "secret"}).items()  # type: ignore[attr-defined]
    assert "address" in refused[0].fields  # type: ignore[attr-defined]
    assert len(refused) == LINES_MAX["refused"]
    assert node.server.statistics().refused == {"Purge": LINES_MAX["refused"] + 40}


async def test_who_changes_without_end_writes_so_many_lines_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="snowmelt.audit")
    monkeypatch.setitem(LINES_MAX, "allowed", 5)
    monkeypatch.setattr("snowmelt.runtime.door.MINUTE", 3_600.0)
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        line = await shop(stack, node, user("manage:q"))
        for _ in range(12):
            await line.ask(calls.Purge("q"))
        monkeypatch.setattr("snowmelt.runtime.door.MINUTE", 0.0)
        await line.ask(calls.Purge("q"))
    told = [one.fields for one in caplog.records if one.name == "snowmelt.audit"]  # type: ignore[attr-defined]
    assert [one.get("more") for one in told] == [None] * 5 + [7, None]


async def test_names_of_producers_and_groups_belong_to_the_user_who_says_them(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        ops = await shop(stack, node, ANYBODY, "c-ops")
        await ops.ask(calls.Open("q", QueueSettings()))
        mine = await shop(stack, node, user("put:q", "get:q"), "c-mine")
        thief = User("thief", user("put:q", "get:q").permissions)
        its = await shop(stack, node, thief, "c-thief")
        # junk under somebody's number takes nothing from what that one puts
        for line in (its, mine, ops):
            done = await line.ask(calls.Put("q", "loader", 1, ONE, b"x"))
            assert (done.repeated, done.copies) == (False, 1)
        assert (await mine.ask(calls.Put("q", "loader", 1, ONE, b"x"))).repeated
        assert (await ops.ask(calls.Put("q", "shop/loader", 1, ONE, b"x"))).repeated
        assert (await its.ask(calls.Put("q", "shop/loader", 1, ONE, b"x"))).error == "BadOption"
        # a group
        await ops.ask(statuses.TraceItem("q", 0))  # from now on steps are kept for such questions
        lease = (await mine.ask(calls.Assign("q", "g", 0, "r", 0, 1, 100))).lease
        assert (await its.ask(calls.Locate("q", "g", lease, 0, 1))).error == "LeaseLost"
        await its.ask(calls.ReleaseGroup("q", "g"))
        assert (await mine.ask(calls.Locate("q", "g", lease, 0, 1))).lost == 0
        assert [one.name for one in (await mine.ask(calls.ListGroups("q"))).groups] == ["g"]
        assert (await its.ask(calls.ListGroups("q"))).groups == ()
        assert [one.name for one in (await ops.ask(calls.ListGroups("q"))).groups] == ["shop/g"]
        refused = await mine.ask(calls.Locate("q", "g", lease + 1, 0, 1))
        assert "shop/" not in refused.text
        # nor is it told where an item is
        looker = User("looker", user("peek:q").permissions)
        seen = {looker: ("", ""), user("peek:q"): ("g", "g"), ANYBODY: ("shop/g", "shop/g")}
        for at, (who, names) in enumerate(seen.items()):
            line = await shop(stack, node, who, f"c-look-{at}")
            told = await line.ask(statuses.TraceItem("q", 0))
            (given,) = [one.who for one in told.events if one.kind is statuses.TraceKind.GIVEN]
            assert (told.status.group, given) == names


async def test_a_staged_batch_is_published_by_its_user_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        ops = await shop(stack, node, ANYBODY, "c-ops")
        await ops.ask(calls.Open("q", QueueSettings()))
        mine = await shop(stack, node, user("put:q"), "c-mine")
        its = await shop(stack, node, User("thief", user("put:q").permissions), "c-thief")
        receipt = await mine.ask(calls.Put("q", "c-1", 1, ONE, b"x", hold=seconds(100)))
        publish = calls.PublishStaged("q", "driver", 7, (receipt,))
        assert (await its.ask(publish)).error == "NotStaged"
        done = await mine.ask(publish)
        assert (done.start, done.stop) == (0, 1)


async def test_a_step_takes_the_right_on_each_of_its_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        await current(node)
        ops = await shop(stack, node, ANYBODY, "c-ops")
        for queue in ("in", "also", "out"):
            await ops.ask(calls.Open(queue, QueueSettings()))
        settles, shares = (calls.Settle("in", 7),), (calls.Share("out", (), 0),)
        commit = calls.Commit("in", "p", 1, settles, shares, ("also",))
        for lacks in ("get:in", "get:also", "put:out"):
            has = {"get:in", "get:also", "put:out"} - {lacks}
            its = await shop(stack, node, user(*has), f"c-{lacks.replace(':', '-')}")
            answer = await its.ask(commit)
            assert (answer.error, lacks in answer.text) == ("AccessDenied", True)
        its = await shop(stack, node, user("get:in", "get:also", "put:out"), "c-all")
        assert (await its.ask(commit)).error == "LeaseLost"


def test_each_answer_with_names_of_users_is_shown_without_them() -> None:
    own = [
        f"{kind.__name__}.{one.name}"
        for kind in (*get_args(Response), calls.GroupStatus)
        if issubclass(kind, msgspec.Struct)
        for one in inspect.type_info(kind).fields  # type: ignore[attr-defined]
        if getattr(one.type, "extra", None) == {"own": True}
    ]
    assert own == ["GroupStatus.name"]
    assert sorted({f"{kind.__name__}.{field}" for kind, field in OWN.items()}) == [
        "Assign.group",
        "Commit.producer",
        "Locate.group",
        "Plan.producer",
        "Promise.producer",
        "PublishStaged.producer",
        "Put.producer",
        "ReleaseGroup.group",
    ]
