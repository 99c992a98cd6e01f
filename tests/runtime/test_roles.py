"""Who may say what between nodes: each message by each wrong role, over real connections."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import snowmelt.aio
from runtime.network import Serving, Stranger, serving, until
from snowmelt.core.errors import MessageError
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.membership import messages as membership
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.home_words import Assignment, ChangeSettings, ListCopies
from snowmelt.protocols.queue.messages.partition_words import Nothing, Ready
from snowmelt.protocols.queue.messages.words import PassOn
from snowmelt.protocols.queue.node import QueueNode
from snowmelt.protocols.queue.streams import node_of
from snowmelt.runtime.door import LINES_MAX
from snowmelt.wire.codec import NODE_WORDS, MessageDecoder
from snowmelt.wire.greeting import Role as Side
from snowmelt.wire.roles import LINES, OF_STRANGERS, NodeRole, RoleCheck, RoleRule, check
from snowmelt_world.attack.malice import Malice

KINDS: tuple[type[msgspec.Struct], ...] = get_args(NODE_WORDS)
PARTED = "log/1"
SETTINGS = QueueSettings()


ME = Member(NodeId("n9"), Address("127.0.0.1", 1), 7, 1)
BY_HAND: tuple[msgspec.Struct, ...] = (
    membership.Join(1, 1, ME, 1, 1),
    membership.JoinByEtcd(1, 1, ME, 1, 1),
    membership.Redirected(1, ME.id, ME.address),
    membership.Adopt(View(1, 1, ME.id, (ME,))),
    Assignment("q", 1, "n9/1", (), SETTINGS),
    ChangeSettings("q", 1, "n9/1/1", SETTINGS),
    PassOn("n9", "n8", Nothing("q", OperationId(ME.id, 1))),
)


def samples() -> dict[type, Any]:
    """One message of each type, that reads."""
    malice, found = Malice(1, NODE_WORDS), {type(one): one for one in BY_HAND}
    for _ in range(100_000):
        if len(found) == len(KINDS):
            break
        try:
            one = MessageDecoder.for_nodes().decode(msgspec.msgpack.encode(malice.body()))
        except (MessageError, OverflowError):
            continue
        found.setdefault(type(one), one)
    return found


SAMPLES = samples()


def from_(source: str, message: Any) -> Any:
    """The same, which says that it is from this node."""
    own = LINES[type(message)].own
    if isinstance(message, PassOn):
        return msgspec.structs.replace(message, source=source)
    if own == "view.coordinator":
        view = msgspec.structs.replace(message.view, coordinator=source)
        return msgspec.structs.replace(message, view=view)
    return msgspec.structs.replace(message, **{own: f"{source}/1/1"}) if own else message


def queues_of(node: Serving) -> QueueNode:
    driver = node.server._driver
    assert driver is not None
    (queues,) = [one for one in driver._node._machines if isinstance(one, QueueNode)]
    return queues


class Nodes:
    """Three nodes, of which n1 decides, with a queue that all of them keep."""

    def __init__(self, nodes: list[Serving]) -> None:
        self.nodes = {node.server.config.id: node for node in nodes}

    async def home(self, queue: str, at: str) -> Assignment:
        """As a node has heard of it."""
        homes = queues_of(self.nodes[NodeId(at)])
        await until(lambda: any(homes.home_of(queue, term) for term in range(20)))
        return next(home for term in range(20) if (home := homes.home_of(queue, term)))

    def refused(self, at: str, kind: type) -> int:
        return self.nodes[NodeId(at)].server.statistics().refused.get(kind.__name__, 0)

    async def says(self, source: str, target: str, message: Any) -> bool:
        """Whether it was refused, of a message that one sends to the other by its own link."""
        transport = self.nodes[NodeId(source)].server._transport
        came = self.nodes[NodeId(target)].server._transport
        assert transport is not None
        assert came is not None
        kind, before, heard = type(message), self.refused(target, type(message)), came.deliver
        arrived = asyncio.Event()

        def deliver(peer: NodeId, one: Any) -> None:
            if one == message:
                heard(peer, one)
                arrived.set()
            else:
                heard(peer, one)

        came.deliver = deliver
        try:
            transport.send(NodeId(target), message)
            await asyncio.wait_for(arrived.wait(), 20)
        finally:
            came.deliver = heard
        return self.refused(target, kind) == before + 1


async def three(stack: AsyncExitStack, folder: Path) -> Nodes:
    n1 = await stack.enter_async_context(serving(folder, "n1"))
    rest = [
        await stack.enter_async_context(serving(folder, name, join=(n1.address,)))
        for name in ("n2", "n3")
    ]
    nodes = [n1, *rest]
    for node in nodes:
        await until(lambda node=node: node.server.view and len(node.server.view.members) == 3)
    async with snowmelt.aio.connect(f"snowmelt://{n1.address}") as cluster:
        await cluster.fifo("q", replicas=3).put(b"x")
        await cluster.fifo("log", replicas=3, partitions=2).put(b"x")
    return Nodes(nodes)


OF_TERMS = {NodeRole.LEADER, NodeRole.KEEPER, NodeRole.ANCHOR}


def wrong_roles() -> list[tuple[type, NodeRole]]:
    """Each message with each role that may not say it, and that a member can have."""
    return [
        (kind, role)
        for kind, line in LINES.items()
        for role in (
            NodeRole.MEMBER,
            *((NodeRole.COORDINATOR,) if OF_TERMS & {*line.roles} else ()),
        )
        if role not in line.roles and NodeRole.STRANGER not in line.roles
    ]


async def test_each_message_by_each_wrong_role(tmp_path: Path) -> None:
    """What a member says that has not the role is dropped and counted, and nobody ends by it."""
    wrong: list[str] = []
    async with AsyncExitStack() as stack:
        nodes = await three(stack, tmp_path)
        for kind, role in wrong_roles():
            message, roles = SAMPLES[kind], LINES[kind].roles
            if not OF_TERMS & {*roles}:
                source, target = "n2", "n3"  # neither of which decides
            else:
                queue = "q" if NodeRole.ANCHOR not in roles else PARTED
                asked = queue if queue == "q" else "log/0"
                home = await nodes.home(asked, "n1")
                leader = node_of(home.master)
                if role is NodeRole.COORDINATOR and leader == "n1":
                    continue  # it has that role, too
                source = "n1" if role is NodeRole.COORDINATOR else _another(leader)
                target = next(one for one in ("n2", "n3", "n1") if one not in (source, leader))
                home = await nodes.home(asked, target)
                field = "anchor" if NodeRole.ANCHOR in roles else "term"
                message = msgspec.structs.replace(message, queue=queue, **{field: home.term})
            if NodeRole.KEEPER in roles:
                continue  # all keep it here; the doctest of `RoleCheck` and the next test have it
            message = from_(source, message)
            if not await nodes.says(source, target, message):
                wrong.append(f"{kind.__name__} by {role.name}, {source} to {target}: {message}")
        assert not wrong, "\n".join(wrong)
        assert all(one.server.failure is None for one in nodes.nodes.values())
        url = f"snowmelt://{nodes.nodes[NodeId('n1')].address}"
        async with snowmelt.aio.connect(url) as cluster:
            assert [one.body for one in await cluster.fifo("q").peek(timeout=20)] == [b"x"]


def _another(leader: str) -> str:
    """A member that neither leads nor decides."""
    return next(one for one in ("n3", "n2") if one != leader)


async def test_each_message_that_says_that_it_is_from_another(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        nodes = await three(stack, tmp_path)
        for kind, line in LINES.items():
            if line.own:
                assert await nodes.says("n2", "n3", from_("n1", SAMPLES[kind])), kind
        assert all(one.server.failure is None for one in nodes.nodes.values())


async def test_each_message_by_a_node_that_never_joined(tmp_path: Path) -> None:
    """It may ask to join, and say what is answered with that it is out; nothing else is heard."""
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await until(lambda: node.server.current)
        await stranger.greet("n9", Side.NODE)
        rest = [kind for kind in KINDS if kind not in OF_STRANGERS]
        for kind in rest:
            stranger.say(from_("n9", SAMPLES[kind]))
        await until(lambda: node.server.statistics().dropped.get("of no member", 0) >= len(rest))
        assert node.server.statistics().refused == {kind.__name__: 1 for kind in rest}
        assert node.server.failure is None


async def test_refusals_are_in_the_audit_log_so_many_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "snowmelt.audit")
    async with AsyncExitStack() as stack:
        nodes = await three(stack, tmp_path)
        for _ in range(LINES_MAX["refused"] + 20):
            await nodes.says("n2", "n3", from_("n1", SAMPLES[membership.Adopt]))
    lines = [one.getMessage() for one in caplog.records if one.name == "snowmelt.audit"]
    found = [one for one in lines if "node n2" in one and "Adopt says that it is from 'n1'" in one]
    most = LINES_MAX["refused"]
    assert most - 10 <= len(found) <= most  # some of others may be among them


@pytest.mark.parametrize("kind", KINDS)
def test_who_has_the_role_is_heard(kind: type) -> None:
    """And of a queue whose home is not known here, the machine looks at the term."""
    leads = Assignment("q", 7, "n2/1", ("n3/1",), SETTINGS, active=True, before=("n4/1",))
    ground = RoleCheck(lambda _, term: leads if term == 7 else None)
    ground.viewed(frozenset(map(NodeId, ("n1", "n2", "n3", "n4", "n5"))), NodeId("n1"))
    roles = {
        NodeRole.STRANGER: "n9",
        NodeRole.MEMBER: "n5",
        NodeRole.COORDINATOR: "n1",
        NodeRole.LEADER: "n2",
        NodeRole.KEEPER: "n4",
        NodeRole.ANCHOR: "n2",
    }
    terms = {
        field: 7
        for role, field in (
            (NodeRole.LEADER, "term"),
            (NodeRole.KEEPER, "term"),
            (NodeRole.ANCHOR, "anchor"),
        )
        if role in LINES[kind].roles
    }
    message = msgspec.structs.replace(SAMPLES[kind], **terms)
    for role in LINES[kind].roles:
        source = NodeId(roles[role])
        assert ground.wrong(source, from_(source, message)) == ""
    if terms:
        stranger = from_("n5", message)
        assert "to say" in ground.wrong(NodeId("n5"), stranger)
        late = msgspec.structs.replace(stranger, **dict.fromkeys(terms, 8))
        assert ground.wrong(NodeId("n5"), late) == ""


def test_only_the_coordinator_passes_on_and_what_a_role_must_say_it_must_have_said() -> None:
    leads = Assignment("q", 7, "n2/1", (), SETTINGS, active=True)
    ground = RoleCheck(lambda _, term: leads if term == 7 else None)
    ground.viewed(frozenset(map(NodeId, ("n1", "n2", "n3"))), NodeId("n1"))
    ready = Ready("q", 7)
    assert ground.wrong(NodeId("n2"), PassOn("n2", "n3", ready)) == ""
    assert ground.wrong(NodeId("n1"), PassOn("n2", "n3", ready)) == ""
    assert "is from 'n2'" in ground.wrong(NodeId("n3"), PassOn("n2", "n1", ready))
    for source in ("n1", "n3"):
        assert "leader" in ground.wrong(NodeId(source), PassOn("n3", "n1", ready))
    assert "member" in ground.wrong(NodeId("n1"), PassOn("n9", "n3", ready))


def test_where_etcd_decides_who_says_that_it_does_is_heard_until_the_view_is_known() -> None:
    members = frozenset(map(NodeId, ("n1", "n2", "n3")))
    adopt, ask = from_("n2", SAMPLES[membership.Adopt]), SAMPLES[ListCopies]
    for on_disk in (True, False):
        ground = RoleCheck(lambda *_: None, on_disk)
        ground.viewed(members, NodeId("n1"))
        assert ground.wrong(NodeId("n2"), ask)
        assert bool(ground.wrong(NodeId("n2"), adopt)) is on_disk
        assert bool(ground.wrong(NodeId("n2"), ask)) is on_disk
        ground.viewed(members, NodeId("n1"))
        assert ground.wrong(NodeId("n2"), ask)


def test_a_message_without_a_line_and_a_line_without_its_field_are_refused_at_import() -> None:
    assert {*LINES} == {*KINDS}
    with pytest.raises(TypeError, match=r"Adopt has no line in wire/roles\.py"):
        check({}, (membership.Adopt,))
    with pytest.raises(TypeError, match="Adopt has no field queue, term"):
        check({membership.Adopt: RoleRule((NodeRole.LEADER,))}, (membership.Adopt,))
    with pytest.raises(TypeError, match="Adopt has no field run"):
        check({membership.Adopt: RoleRule((NodeRole.MEMBER,), own="run")}, (membership.Adopt,))
