"""Real processes: signals, crashes, restarts, logs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from runtime.network import Stranger
from snowmelt.cli.local import LocalCluster, LocalNode, free_port
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo import Echo, Remember, Remembered
from snowmelt.protocols.membership import Member, View
from snowmelt.runtime import near, server
from snowmelt.runtime.server import NodeConfig
from snowmelt.wire.codec import MessageDecoder
from snowmelt.wire.framing import HEADER_BYTES, Kind
from snowmelt.wire.greeting import Goodbye, heard

HEARTBEAT = 0.5


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, LocalCluster]]:
    """One for each way: whether processes of one machine are near."""
    made = {
        way: LocalCluster(3, tmp_path_factory.mktemp("nodes"), HEARTBEAT) for way in (True, False)
    }
    yield made
    for one in made.values():
        one.stop()


@pytest.fixture
def cluster(clusters: dict[bool, LocalCluster]) -> LocalCluster:
    """Three nodes that a test may stop and kill."""
    chosen = clusters[near.POSSIBLE]
    chosen.start()
    return chosen


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    with LocalCluster(1, tmp_path, HEARTBEAT) as cluster:
        cluster.start()
        yield cluster.nodes[0]


def listed(view: View, name: str) -> Member:
    return next(one for one in view.members if one.id == name)


def seen(node: LocalNode) -> View:
    status = node.status()
    assert status is not None
    assert status.view is not None
    return status.view


def at(node: LocalNode) -> Address:
    return Address("127.0.0.1", node.port)


def test_a_node_told_to_stop_leaves_the_view_at_once_and_ends_with_0(cluster: LocalCluster) -> None:
    first, _, last = cluster.nodes
    begin = time.monotonic()
    assert last.stop() == 0
    assert [one.id for one in seen(first).members] == ["n1", "n2"]
    assert time.monotonic() - begin < 7 * HEARTBEAT, "it was missed rather than heard to leave"


async def test_calls_in_flight_are_answered_when_a_node_is_told_to_stop(node: LocalNode) -> None:
    count = 300
    async with await Stranger.dial(at(node)) as stranger:
        await stranger.greet()
        stranger.say(*(Call(one, Remember(f"name {one}", bytes(20))) for one in range(count)))
        answers = [await stranger.answer()]
        os.kill(node.pid, signal.SIGTERM)
        while True:
            kind, payload = await stranger.frame()
            if kind is Kind.GOODBYE:
                break
            answers.append(MessageDecoder.for_clients().decode(payload))
        word = heard(payload, Goodbye)
    assert (word.error, word.text) == ("Unavailable", "this node is stopping")
    expected = [Answer(one, Remembered(f"name {one}")) for one in range(count)]
    assert sorted(answers, key=lambda answer: answer.number) == expected
    assert node._process.wait(20) == 0


async def test_an_answer_on_its_way_arrives_whole_when_a_node_is_told_to_stop(
    node: LocalNode,
) -> None:
    body = os.urandom(32 << 20)
    async with await Stranger.dial(at(node)) as stranger:
        await stranger.greet()
        stranger.say(Call(1, Echo(body)))
        some = await stranger._reader.readexactly(HEADER_BYTES)
        os.kill(node.pid, signal.SIGTERM)
        stranger._frames.feed(some)
        assert (await stranger.answer()).body.body == body
        assert (await stranger.goodbye()).error == "Unavailable"
    assert node._process.wait(20) == 0


def test_a_killed_node_comes_back_as_itself_with_a_later_start(cluster: LocalCluster) -> None:
    victim = cluster.nodes[-1]
    before = listed(seen(cluster.nodes[0]), victim.name)
    assert victim.kill() == -signal.SIGKILL
    cluster.wait_for(["n1", "n2"], 20)
    victim.start()
    after = listed(cluster.wait_for(["n1", "n2", "n3"], 20), victim.name)
    assert (after.id, after.birth, after.address) == (before.id, before.birth, before.address)
    assert after.start > before.start


def test_all_find_the_node_that_decides_again_after_it_was_killed(cluster: LocalCluster) -> None:
    first = cluster.nodes[0]
    epoch = seen(first).epoch
    first.kill()
    deadline = time.monotonic() + 20
    while (status := cluster.nodes[1].status()) is None or status.standing != "cut off":
        assert time.monotonic() < deadline
    first.start()
    assert cluster.wait_for(["n1", "n2", "n3"], 20).epoch > epoch


def test_a_thread_of_a_node_does_not_wait_long_while_its_loop_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = list[float]()

    async def serve(*_: object) -> None:
        seen.append(sys.getswitchinterval())

    monkeypatch.setattr(server, "_serve", serve)
    monkeypatch.setattr(server, "GarbageLooks", Mock())
    usual = sys.getswitchinterval()
    try:
        server.run(NodeConfig(id=NodeId("n1"), listen=Address("127.0.0.1", 0), data=Path("none")))
    finally:
        sys.setswitchinterval(usual)
    assert seen == [pytest.approx(server.SWITCH_SECONDS)]


def test_logs_are_one_json_object_a_line(cluster: LocalCluster) -> None:
    cluster.nodes[-1].stop()
    events = []
    for node in cluster.nodes:
        for line in node.log.read_text().splitlines():
            told = json.loads(line)
            assert {"at", "level", "event"} <= set(told)
            events.append(told["event"])
    assert {"listening", "view", "draining", "stopped"} <= set(events)


def test_two_processes_on_one_disk_end_the_second_with_a_clear_error(node: LocalNode) -> None:
    command = [sys.executable, "-m", "snowmelt", "node", "--id", node.name]
    command += ["--data", str(node.folder), "--listen", f"127.0.0.1:{free_port()}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 7, ended.stderr
    assert str(node.folder) in ended.stderr
    assert "Traceback" not in ended.stderr
    assert node.status() is not None
