"""Nodes that may not join end with a clear error; nodes that may, find each other again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.network import QUICK, Serving, Stranger, serving, until
from snowmelt.cli.local import free_port
from snowmelt.core.errors import AccessDenied, NodeRefused, SnowmeltError, Unavailable
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.membership import Member
from snowmelt.protocols.membership.messages import Join, Redirected
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.folders import found_on_disk
from snowmelt.runtime.server import NodeConfig, Server
from snowmelt.wire.codec import MessageDecoder, encode
from snowmelt.wire.framing import FrameReader, Kind, framed
from snowmelt.wire.greeting import Gate, Role
from snowmelt.wire.sides import Listening

ANYWHERE = Address("127.0.0.1", 0)


def members(node: Serving) -> list[str]:
    view = node.server.view
    return [one.id for one in view.members] if view and node.server.current else []


async def ends(folder: Path, **config: Any) -> SnowmeltError:
    """Serves until it stops by itself; why it did."""
    config.setdefault("listen", ANYWHERE)
    server = Server(NodeConfig(settings=QUICK, data=folder / "joiner", **config))
    asyncio.get_running_loop().call_later(20, server.kill)  # then it ends without an error
    with pytest.raises(SnowmeltError) as raised:
        await server.serve()
    return raised.value


async def test_the_wrong_token_ends_a_joiner_with_a_clear_error(tmp_path: Path) -> None:
    async with serving(tmp_path, credentials=Credentials(token="right")) as node:
        error = await ends(
            tmp_path, id=NodeId("n2"), join=(node.address,), credentials=Credentials(token="wrong")
        )
        assert isinstance(error, AccessDenied)
        assert str(error) == "the token is missing or wrong: n1 has another"
        assert (
            node.closed["goodbye: AccessDenied"] >= 1
        )  # a joiner that is not answered soon asks again
        await until(lambda: members(node) == ["n1"])


async def test_the_wrong_cluster_ends_a_joiner_with_a_clear_error(tmp_path: Path) -> None:
    async with serving(tmp_path, cluster="snow") as node:
        error = await ends(tmp_path, id=NodeId("n2"), join=(node.address,), cluster="rain")
        assert isinstance(error, AccessDenied)
        assert str(error) == "this is cluster 'snow', not 'rain'"


async def test_an_id_that_is_the_other_s_own_ends_a_joiner_with_a_clear_error(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as node:
        error = await ends(tmp_path, id=NodeId("n1"), join=(node.address,))
        assert isinstance(error, NodeRefused)
        assert "give the other another --id" in str(error)


async def test_all_nodes_may_be_given_the_same_list_of_names_to_join(tmp_path: Path) -> None:
    """As in a StatefulSet: each finds itself in it, and goes on to the others."""
    names = tuple(Address("localhost", free_port()) for _ in range(2))

    def given(at: int) -> dict[str, Any]:
        listen = Address("127.0.0.1", names[at].port)
        return {"listen": listen, "advertise": names[at], "join": names}

    found_on_disk(tmp_path / "n1", NodeId("n1"))
    async with (
        serving(tmp_path, "n2", **given(1)) as second,
        serving(tmp_path, "n1", **given(0)) as first,
    ):
        await until(lambda: members(first) == members(second) == ["n1", "n2"])
        assert second.server.view is not None
        assert [one.address for one in second.server.view.members] == list(names)


async def test_a_new_folder_that_could_join_none_but_itself_founds_nothing(tmp_path: Path) -> None:
    mine = Address("127.0.0.1", free_port())
    error = await ends(tmp_path, id=NodeId("n1"), listen=mine, join=(mine,))
    assert "snowmelt found" in str(error)


async def test_an_id_used_twice_ends_the_second_and_not_the_first(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as node,
        serving(tmp_path, "n2", join=(node.address,)) as second,
    ):
        await until(lambda: members(second) == ["n1", "n2"])
        error = await ends(tmp_path, id=NodeId("n2"), join=(node.address,))
        assert isinstance(error, NodeRefused)
        assert "belongs to another disk" in str(error)
        assert "snowmelt forget n2" in str(error)
        await until(lambda: members(second) == members(node) == ["n1", "n2"])


async def test_a_node_waits_for_its_disk_in_its_loop_only_while_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as node:
        driver = node.server._driver
        assert driver is not None
        await until(lambda: members(node) == ["n1"])
        assert driver.alone
        async with serving(tmp_path, "n2", join=(node.address,)):
            await until(lambda: members(node) == ["n1", "n2"])
            assert not driver.alone
        await until(lambda: members(node) == ["n1"])
        assert driver.alone


async def test_a_disk_of_another_id_ends_a_node_with_a_clear_error(tmp_path: Path) -> None:
    async with serving(tmp_path, "joiner") as node:
        await until(lambda: members(node) == ["joiner"])
    error = await ends(tmp_path, id=NodeId("n7"))
    assert isinstance(error, NodeRefused)
    assert "belongs to node joiner, not to n7" in str(error)


async def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        error = await ends(tmp_path, id=NodeId("n2"), listen=node.address)
        assert isinstance(error, Unavailable)
        assert str(node.address) in str(error)


async def test_a_joiner_waits_for_who_is_not_there_yet_and_does_not_storm_it(
    tmp_path: Path,
) -> None:
    address = Address("127.0.0.1", free_port())
    async with serving(tmp_path, "n2", join=(address,)) as joiner:
        dropped = joiner.server._transport.dropped
        refused = "dial failed: ConnectionRefusedError"
        await until(lambda: dropped.read().get(refused, 0) >= 4)
        waits = joiner.server._transport.routes.all[1][NodeId(str(address))]
        assert waits.not_before - asyncio.get_running_loop().time() > 0.2
        async with serving(tmp_path, listen=address) as node:
            await until(lambda: members(node) == members(joiner) == ["n1", "n2"])
            assert dropped.read()[refused] < 20


async def test_members_find_each_other_again_when_one_was_away(tmp_path: Path) -> None:
    address = Address("127.0.0.1", free_port())
    async with serving(tmp_path, "n2", join=(address,)) as second:
        for _ in range(2):
            async with serving(tmp_path, listen=address) as first:
                await until(lambda: members(first) == members(second) == ["n1", "n2"])
            await until(lambda: not second.server.current)


async def fake_node(address: Address, reply: Any) -> asyncio.Server:
    """Something that greets as a node and answers a Join with whatever it wants."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        side = Listening(Gate("snowmelt"), NodeId("n9"), Role.NODE, 1 << 20)
        try:
            while data := await reader.read(1 << 16):
                for kind, payload in frames.feed(data):
                    if kind in (Kind.HELLO, Kind.PROVE):
                        writer.write(side.hear(kind, payload)[0])
                    elif kind is Kind.MESSAGE:
                        message = MessageDecoder.for_nodes().decode(payload)
                        if isinstance(message, Join):
                            writer.write(framed(Kind.MESSAGE, encode(reply(message))))
        finally:
            writer.close()

    return await asyncio.start_server(talk, address.host, address.port)


BAD_PLACES = [
    Address("no host at all", 1),
    Address("h" * 64, 1),
    Address("a\0b", 80),
    Address("", 0),
]


@pytest.mark.parametrize("place", BAD_PLACES, ids=str)
async def test_an_address_that_is_none_from_another_node_does_no_harm(
    tmp_path: Path, place: Address
) -> None:
    address = Address("127.0.0.1", free_port())
    fake = await fake_node(address, lambda join: Redirected(join.run, NodeId("n8"), place))
    async with fake, serving(tmp_path, "n2", join=(address,)) as node:
        await until(lambda: sum(node.server.statistics().dropped.values()) >= 2)
        assert node.server.failure is None
        async with await Stranger.dial(node.address) as client:
            await (await client.greet()).is_served()


@pytest.mark.parametrize("place", BAD_PLACES, ids=str)
async def test_a_member_whose_address_is_none_does_no_harm(tmp_path: Path, place: Address) -> None:
    async with serving(tmp_path) as node:
        await until(lambda: members(node) == ["n1"])
        async with await Stranger.dial(node.address) as odd:
            await odd.greet("n2", Role.NODE)
            odd.say(Join(1, 1, Member(NodeId("n2"), place, 1, 1), 0, 0))
            await until(lambda: members(node) == ["n1", "n2"])
        await until(lambda: members(node) == ["n1"])  # missed, and gone
        assert node.server.failure is None
        assert all(route.dial is None or not route.dial.done() for route in routes(node))


async def test_a_port_that_is_none_does_not_read(tmp_path: Path) -> None:
    place = Address("127.0.0.1", 99_999_999)
    async with serving(tmp_path) as node:
        await until(lambda: members(node) == ["n1"])
        async with await Stranger.dial(node.address) as odd:
            await odd.greet("n2", Role.NODE)
            odd.say(Join(1, 1, Member(NodeId("n2"), place, 1, 1), 0, 0))
            assert (await odd.goodbye()).error == "MessageError"
        assert node.server.failure is None
        async with await Stranger.dial(node.address) as client:
            await (await client.greet()).is_served()


def routes(node: Serving) -> list[Any]:
    return [one for lane in node.server._transport.routes.all for one in lane.values()]
