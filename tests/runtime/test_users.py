"""Users of a running node: their secrets and rights change under load, and nobody else is hurt."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import snowmelt
import snowmelt.aio
from greetings import speaker, whole
from runtime.network import Serving, Stranger, serving, until
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.cli.main import program
from snowmelt.core.errors import AccessDenied, BadOption, OutcomeUnknown
from snowmelt.core.names import Address, contact
from snowmelt.protocols.calling import Call
from snowmelt.protocols.echo import Echo
from snowmelt.runtime.connection import has_closed
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.statistics import Reloaded
from snowmelt.wire.framing import Kind, framed
from snowmelt.wire.greeting import Role
from snowmelt.wire.sides import Dialling
from timing import until as comes

SHOP, OPS, NODES, NEW = (f"{one}-0123456789abcdef" for one in ("shop", "ops", "nodes", "new"))
SHOP_LINE, OPS_LINE = f"shop {SHOP} put get peek manage", f"ops {OPS} admin"
NODES_LINE = f"nodes {NODES} node"
ALL = (SHOP_LINE, OPS_LINE, NODES_LINE)


def users(folder: Path, *lines: str) -> Path:
    file = folder / "users"
    new = folder / "users.new"
    new.write_text("\n".join(lines) + "\n")
    new.chmod(0o600)
    new.rename(file)
    return file


def shown(file: Path, **more: Any) -> Credentials:
    return Credentials(users=file, **more)


@asynccontextmanager
async def two(folder: Path, *lines: str) -> AsyncIterator[tuple[Serving, Serving]]:
    file = users(folder, *lines)
    async with (
        serving(folder, credentials=shown(file)) as one,
        serving(folder, "n2", join=(one.address,), credentials=shown(file)) as other,
    ):
        await until(lambda: all(_members(each) == 2 for each in (one, other)))
        yield one, other


def _members(node: Serving) -> int:
    view = node.server.view
    return len(view.members) if view and node.server.current else 0


def url(*nodes: Serving) -> str:
    return "snowmelt://" + ",".join(str(one.address) for one in nodes)


async def reload(*nodes: Serving, user: str = "ops", token: str = OPS) -> list[int]:
    """Asks each as an admin does."""
    counts = []
    for node in nodes:
        async with await Stranger.dial(node.address) as admin:
            await admin.greet("c-ops", user=user, token=token)
            admin.send(framed(Kind.RELOAD, b""))
            kind, payload = await admin.frame()
            assert kind is Kind.INFORM, payload
            counts.append(msgspec.json.decode(payload, type=Reloaded).users)
    return counts


async def test_a_secret_changes_under_load_and_no_call_of_anybody_fails(tmp_path: Path) -> None:
    """Of a client's user, and of the nodes' own, step by step."""
    async with two(tmp_path, *ALL) as nodes:
        over, counts = asyncio.Event(), {"shop": 0, "ops": 0}

        async def work(user: str, secret: Callable[[], str]) -> None:
            while not over.is_set():
                async with snowmelt.aio.connect(url(*nodes), user=user, token=secret()) as cluster:
                    for _ in range(20):
                        await cluster.fifo(user).put(b"x")
                        counts[user] += 1

        now = SHOP
        async with asyncio.TaskGroup() as group:
            group.create_task(work("ops", lambda: OPS))
            shop = group.create_task(work("shop", lambda: now))
            new_shop = f"shop {NEW} put get peek manage"
            new_nodes = "nodes the-nodes-next-secret node"
            steps = [
                (*ALL, new_shop),
                (new_shop, OPS_LINE, NODES_LINE, new_nodes),
                (new_shop, OPS_LINE, new_nodes, NODES_LINE),
                (new_shop, OPS_LINE, new_nodes),
            ]
            for at, lines in enumerate(steps):
                users(tmp_path, *lines)
                if at == 1:  # its programs have the new secret by now
                    now, before = NEW, counts["shop"]
                    await until(lambda before=before: counts["shop"] > before + 40)
                assert await reload(*nodes) == [3, 3]
                before = counts["ops"]
                await until(lambda before=before: counts["ops"] > before + 20)
            over.set()
        assert shop.exception() is None
        assert all(_members(one) == 2 for one in nodes)
        async with snowmelt.aio.connect(url(*nodes), user="shop", token=SHOP) as cluster:
            with pytest.raises(AccessDenied, match="there is no user 'shop' with this secret"):
                await cluster.ping()


async def test_one_token_changes_under_load_and_no_call_of_anybody_fails(tmp_path: Path) -> None:
    file, old, new = tmp_path / "token", OPS, NEW
    file.write_text(old)
    given = Credentials(token=old, token_file=file)
    async with (
        serving(tmp_path, credentials=given) as one,
        serving(tmp_path, "n2", join=(one.address,), credentials=given) as other,
    ):
        await until(lambda: all(_members(each) == 2 for each in (one, other)))
        over, now, worked_with = asyncio.Event(), old, list[str]()

        async def work() -> None:
            while not over.is_set():
                token = now
                async with snowmelt.aio.connect(url(one, other), token=token) as cluster:
                    for _ in range(20):
                        await cluster.fifo("orders").put(b"x")
                worked_with.append(token)

        async with asyncio.TaskGroup() as group:
            working = group.create_task(work())
            for text in (f"{old}\n{new}\n", f"{new}\n{old}\n", f"{new}\n"):
                file.write_text(text)
                for node in (one, other):
                    assert await reload(node, user="", token=now) == [1]
                now = new
                worked_with.clear()  # what was connected with the old one ends before that goes
                await until(lambda: new in worked_with)
                assert not working.done()
            over.set()
        assert (_members(one), _members(other)) == (2, 2)
        with pytest.raises(AccessDenied):
            async with snowmelt.aio.connect(url(one, other), token=old) as cluster:
                await cluster.ping()
        for text, why in (("\n", "a file with a token"), ("\n".join("abcde"), "tokens is 5")):
            file.write_text(text)
            async with await Stranger.dial(one.address) as admin:
                await admin.greet("c-ops", token=new)
                admin.send(framed(Kind.RELOAD, b""))
                assert why in (await admin.goodbye()).text


async def test_who_has_lost_its_secret_is_cut_off_and_others_are_not(tmp_path: Path) -> None:
    file = users(tmp_path, *ALL)
    async with (
        serving(tmp_path, credentials=shown(file)) as node,
        await Stranger.dial(node.address) as shop,
        await Stranger.dial(node.address) as late,
        await Stranger.dial(node.address) as ops,
    ):
        await (await shop.greet("c-shop", user="shop", token=SHOP)).is_served()
        await (await ops.greet("c-other", user="ops", token=OPS)).is_served()
        side = Dialling(speaker("c-late", token=SHOP, user="shop"))
        late.send(side.first)
        proof, _ = side.hear(*await late.frame())
        users(tmp_path, OPS_LINE, NODES_LINE)
        assert await reload(node) == [2]
        assert "no user 'shop' with this secret any more" in (await shop.goodbye()).text
        late.send(proof)  # it was in the middle of its greeting
        assert (await late.goodbye()).error == "AccessDenied"
        await ops.is_served()


async def test_what_was_dialled_by_a_secret_that_is_gone_is_heard_no_more(tmp_path: Path) -> None:
    async with two(tmp_path, OPS_LINE, NODES_LINE) as (_, node):
        transport = node.server._transport
        assert transport is not None
        dialled = [one for one in transport.connections() if not one.inbound]
        assert dialled
        users(tmp_path, OPS_LINE, f"nodes {NEW} node")
        assert await reload(node) == [2]
        assert all(has_closed(one) for one in dialled)


async def test_rights_are_those_of_the_new_file_from_then_on(tmp_path: Path) -> None:
    file = users(tmp_path, *ALL)
    async with (
        serving(tmp_path, credentials=shown(file)) as node,
        snowmelt.aio.connect(url(node), user="shop", token=SHOP) as cluster,
    ):
        queue = cluster.fifo("orders")
        await queue.put(b"x")
        users(tmp_path, f"shop {SHOP} get", OPS_LINE, NODES_LINE)
        await reload(node)
        with pytest.raises(AccessDenied, match="put"):
            await queue.put(b"y")
        assert (await queue.get()).body == b"x"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("shop short put\n", "letters of the secret in line 1 is 5"),
        (f"{SHOP_LINE}\n{OPS_LINE}\n", "none has it in the file of users"),
        ("", "users is 0"),
        (None, "--users is"),
    ],
)
async def test_a_file_that_does_not_read_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None, why: str
) -> None:
    file = users(tmp_path, *ALL)
    async with serving(tmp_path, credentials=shown(file)) as node:
        async with await Stranger.dial(node.address) as shop:
            await shop.greet("c-shop", user="shop", token=SHOP)
            file.unlink() if text is None else file.write_text(text)
            async with await Stranger.dial(node.address) as admin:
                await admin.greet("c-ops", user="ops", token=OPS)
                admin.send(framed(Kind.RELOAD, b""))
                word = await admin.goodbye()
                assert why in word.text
                assert SHOP not in word.text
            assert any("keeps its users" in one.getMessage() for one in caplog.records)
            await shop.is_served()
        async with snowmelt.aio.connect(url(node), user="shop", token=SHOP) as cluster:
            await cluster.ping()


async def test_only_an_admin_has_a_node_read_its_files(tmp_path: Path) -> None:
    file = users(tmp_path, *ALL)
    async with (
        serving(tmp_path, credentials=shown(file)) as node,
        await Stranger.dial(node.address) as shop,
    ):
        await shop.greet("c-shop", user="shop", token=SHOP)
        shop.send(framed(Kind.RELOAD, b""))
        assert (await shop.goodbye()).error == "AccessDenied"


async def test_a_client_s_user_greets_as_no_node_and_is_told_why(tmp_path: Path) -> None:
    file = users(tmp_path, *ALL)
    async with serving(tmp_path, credentials=shown(file)) as node:
        for user, secret in (("shop", SHOP), ("ops", OPS)):
            async with await Stranger.dial(node.address) as other:
                await other.greet("n9", Role.NODE, user=user, token=secret)
                word = await other.goodbye()
                assert word.error == "AccessDenied"
                assert f"user {user} may not be a node here" in word.text


@pytest.mark.parametrize(
    ("credentials", "lines", "why"),
    [
        ({"token": "x"}, ALL, "--users is"),
        ({"user": "shop"}, ALL, "--user is 'shop'; allowed: a user with the right node: nodes"),
        ({}, (SHOP_LINE,), "--user is 'left out'; allowed: a user with the right node: none"),
        ({}, (*ALL, f"more {NEW} node"), "with the right node: nodes, more"),
    ],
)
async def test_a_node_knows_which_user_it_is_itself_or_does_not_start(
    tmp_path: Path, credentials: dict[str, str], lines: tuple[str, ...], why: str
) -> None:
    file = users(tmp_path, *lines)
    with pytest.raises(BadOption, match=why):
        async with serving(tmp_path, credentials=shown(file, **credentials)):
            pass


async def test_a_file_that_others_may_read_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = users(tmp_path, *ALL)
    file.chmod(0o644)
    async with serving(tmp_path, credentials=shown(file)):
        assert any("chmod 600" in one.getMessage() for one in caplog.records)


# --- names ----------------------------------------------------------------------------------------


async def test_nobody_makes_another_client_deaf_by_its_name(tmp_path: Path) -> None:
    """Names are no secret: whoever has the token of all may learn them."""
    async with (
        serving(tmp_path) as node,
        await Stranger.dial(node.address) as victim,
        await Stranger.dial(node.address) as other,
    ):
        await (await victim.greet("c-victim")).is_served()
        liar = msgspec.structs.replace(speaker("c-liar"), name=whole("c-victim"))
        side = Dialling(liar)
        other.send(side.first)
        proof, _ = side.hear(*await other.frame())
        other.send(proof)
        word = await other.goodbye()
        assert (word.error, "the name of another client" in word.text) == ("AccessDenied", True)
        await victim.is_served()
        async with await Stranger.dial(node.address) as again:  # with its key it comes back
            await (await again.greet("c-victim")).is_served()


# --- no secret is said ----------------------------------------------------------------------------

TOKEN = "a token that nobody may hear"


@contextmanager
def listening() -> Iterator[tuple[Address, bytearray]]:
    """Somebody on a port, who hears what is said first, and answers nothing."""
    said = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        over = threading.Event()

        def hear() -> None:
            while not over.is_set():
                with suppress(OSError), listener.accept()[0] as one:
                    one.settimeout(0.3)
                    with suppress(TimeoutError):
                        while data := one.recv(1 << 16):
                            said.extend(data)

        thread = threading.Thread(target=hear)
        thread.start()
        try:
            yield Address("127.0.0.1", listener.getsockname()[1]), said
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("who", ["blocking", "async", "a pool", "a node"])
async def test_whoever_took_a_node_s_port_hears_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setenv("SNOWMELT_TOKEN", TOKEN)
    with listening() as (address, said):
        place = f"snowmelt://{address}"

        def blocking() -> None:
            with snowmelt.connect(place) as cluster, suppress(snowmelt.SnowmeltError):
                cluster.ping(timeout=0.5)

        def pool() -> None:
            with snowmelt.connect(place) as cluster, suppress(snowmelt.SnowmeltError):
                cluster.pool("frames").get(timeout=0.5)

        match who:
            case "blocking":
                await asyncio.to_thread(blocking)
            case "a pool":
                await asyncio.to_thread(pool)
            case "async":
                async with snowmelt.aio.connect(place) as cluster:
                    with suppress(snowmelt.SnowmeltError):
                        await cluster.ping(timeout=0.5)
            case _:
                join = {"join": (address,), "credentials": Credentials(token=TOKEN)}
                async with serving(tmp_path, "n2", **join):
                    await until(lambda: said)
        assert b"snowmelt" in said, "it was dialled"
        assert TOKEN.encode() not in said


async def test_nothing_is_said_in_clear_to_an_address_that_a_node_named(tmp_path: Path) -> None:
    del tmp_path
    far = Address("192.0.2.7", 4410)
    client = snowmelt.aio.connect("snowmelt://127.0.0.1:1")
    async with client:
        transport = client._client._transport
        transport.send(contact(far), Call(1, Echo(b"")))
        await until(lambda: transport.last_failure)
        assert "nothing is said to it without TLS" in str(transport.last_failure)
    for chosen in (Credentials(plain=True), Credentials(authority=Path("a.pem"))):
        chosen.check_dial(far)
    Credentials().check_dial(Address("127.0.0.1", 4410))


# --- the program ----------------------------------------------------------------------------------


def test_a_cluster_of_processes_with_a_file_of_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = users(tmp_path, *ALL)
    for name, value in (("USERS", str(file)), ("USER", "ops"), ("TOKEN", OPS)):
        monkeypatch.setenv(f"SNOWMELT_{name}", value)
    with LocalCluster(2, tmp_path / "cluster", 0.5) as cluster:
        cluster.start()
        with snowmelt.connect(f"{cluster.url}?user=shop", token=SHOP) as shop:
            shop.fifo("orders").put(b"x")
            users(tmp_path, OPS_LINE, NODES_LINE)
            ended = CliRunner().invoke(program(["reload"]), ["reload", "--url", cluster.url])
            assert ended.exit_code == 0, ended.output
            assert ended.output.count("knows 2 users") == 2
            # The first may have been on its way as its link was cut.
            with pytest.raises((AccessDenied, OutcomeUnknown), match="no user 'shop'"):
                shop.ping(timeout=3)
            with pytest.raises(AccessDenied, match="no user 'shop'"):
                shop.ping()
        users(tmp_path, *ALL)
        for node in cluster.nodes:
            os.kill(node.pid, signal.SIGHUP)
            assert node.running
        # Each has read them twice by then; before it has, it denies what goes to it.
        comes(lambda: all(_reads(one) == 2 for one in cluster.nodes))
        with snowmelt.connect(cluster.url, user="shop", token=SHOP) as shop:
            shop.ping()
            assert shop.fifo("orders").get().body == b"x"


def _reads(node: LocalNode) -> int:
    return node.log.read_text().count("read users again")


def test_a_terminal_that_is_closed_ends_a_node_that_has_nothing_to_read_again(
    tmp_path: Path,
) -> None:
    with LocalCluster(1, tmp_path / "cluster", 0.5) as cluster:
        cluster.start()
        [node] = cluster.nodes
        os.kill(node.pid, signal.SIGHUP)
        comes(lambda: not node.running)
        assert node.code == -signal.SIGHUP
