"""A cluster has an identity, and whoever has known it refuses another; a folder has a kind."""

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import snowmelt
import snowmelt.aio
from cli.program import snowmelt as ran
from snowmelt.cli.local import LocalCluster, LocalNode, free_port
from snowmelt.core.errors import BadOption, OtherCluster, StateError
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.etcd import PutKey, Transact
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.folders import found_in_etcd, found_on_disk
from snowmelt.store import Store
from snowmelt_world.etcd import Model


class Two:
    """A cluster of one node, and a folder of another cluster that may be found in its place."""

    def __init__(self, folder: Path) -> None:
        self.node = LocalNode("n1", free_port(), folder / "n1", ["--heartbeat", "0.3"])
        told = ran("found", "--data", str(self.node.folder), "--json")
        self.old = json.loads(told.stdout)["cluster"]
        self.other = found_on_disk(folder / "other", NodeId("n1"))
        self._folder = folder

    @contextlib.contextmanager
    def another_disk(self) -> Iterator[None]:
        """Its volume is not mounted; what is there instead is another cluster's."""
        self._put_at_its_place("other", "aside")
        yield
        self._put_at_its_place("aside", "other")

    def _put_at_its_place(self, one: str, away: str) -> None:
        self.node.kill()
        self.node.folder.rename(self._folder / away)
        (self._folder / one).rename(self.node.folder)
        self.node.start()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    made = Two(tmp_path_factory.mktemp("two"))
    made.node.start()
    with snowmelt.connect(made.node.url) as cluster:
        cluster.fifo("first").put(b"x", timeout=20)
    yield made
    made.node.kill()


def test_a_node_on_an_empty_folder_founds_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    ended = ran("node", "--id", "n1", "--data", str(tmp_path / "n1"), "--listen", listen)
    assert ended.returncode == 3
    for word in ("of no cluster", "--join", "snowmelt found", "mount it"):
        assert word in ended.stderr
    unnamed = ran("node", "--data", str(tmp_path / "n1"), "--listen", listen)
    assert unnamed.returncode == 2
    assert "--id is 'left out'" in unnamed.stderr


def test_a_folder_is_founded_once_and_says_whose_it_is(two: Two, tmp_path: Path) -> None:
    folder = str(tmp_path / "n1")
    shutil.copytree(two.node.folder, folder)
    again = ran("found", "--data", folder)
    assert again.returncode == 4
    assert f"is of node n1 of cluster {two.old}; nothing was founded" in again.stderr
    other = ran("node", "--id", "n2", "--data", folder, "--listen", f"127.0.0.1:{free_port()}")
    assert "this disk belongs to node n1, not to n2" in other.stderr


def test_clients_that_were_connected_refuse_another_cluster_and_lose_nothing(two: Two) -> None:
    async def run() -> None:
        with snowmelt.connect(two.node.url) as one:
            async with snowmelt.aio.connect(two.node.url) as other:
                queue = one.fifo("q")
                queue.put(b"before", timeout=20)
                await other.ping(timeout=20)
                with two.another_disk():
                    with snowmelt.connect(two.node.url) as stranger:  # it has known no other
                        assert stranger.fifo("q").put(b"elsewhere", timeout=20) == 0
                    await _refused(two, lambda: asyncio.to_thread(queue.put, b"lost", timeout=20))
                    await _refused(two, lambda: other.fifo("q").put(b"lost", timeout=20))
                queue.put(b"after", timeout=20)
                got = queue.get_many(5, timeout=20)
                assert [item.body for item in got] == [b"before", b"after"]

    asyncio.run(run())


async def _refused(two: Two, put: Callable[[], Awaitable[object]]) -> None:
    began = time.monotonic()
    with pytest.raises(OtherCluster, match=f"{two.other}, and this client of {two.old}") as no:
        await put()
    assert no.value.definite
    assert time.monotonic() - began < 10


def test_a_url_pins_the_cluster(two: Two) -> None:
    with snowmelt.connect(f"{two.node.url}?cluster={two.old.upper()}") as cluster:
        cluster.ping(timeout=20)
    ended = ran("put", "q", "x", "--url", f"{two.node.url}?cluster={two.other}")
    assert ended.returncode == 3
    assert f"n1 is of cluster {two.old}, and the URL of {two.other}" in ended.stderr
    with pytest.raises(BadOption, match="the identity of a cluster, 16 digits"):
        snowmelt.connect(f"{two.node.url}?cluster=snow")
    shown = ran("status", "--url", two.node.url)
    assert two.old in shown.stdout
    assert ran("put", "q", "x", "--url", two.node.url).returncode == 0
    assert two.old in ran("stats", "q", "--url", two.node.url).stdout
    told = json.loads(ran("stats", "q", "--json", "--url", two.node.url).stdout)
    assert told["cluster"] == two.old


def test_a_node_whose_disk_is_of_another_cluster_refuses_to_join(two: Two, tmp_path: Path) -> None:
    member = LocalNode("n2", free_port(), tmp_path / "n2", ["--join", two.node.address])
    member.start()
    with snowmelt.connect(member.url) as cluster:
        cluster.queues(timeout=20)
    member.stop()
    with two.another_disk():
        with snowmelt.connect(two.node.url) as cluster:
            cluster.ping(timeout=20)
        command = ["--data", str(member.folder), "--listen", f"127.0.0.1:{member.port}"]
        ended = ran("node", *command, "--join", two.node.address)
    assert ended.returncode == 3
    assert f"n1 is of cluster {two.other}, and this disk of {two.old}" in ended.stderr
    assert "keep this one" in ended.stderr


def test_up_founds_only_in_folders_that_it_makes(tmp_path: Path) -> None:
    with LocalCluster(2, tmp_path / "up", 0.3) as cluster:
        identity = cluster.start().identity
    with LocalCluster(3, tmp_path / "up", 0.3) as cluster:  # as before, and one more
        assert cluster.start().identity == identity
    shutil.rmtree(tmp_path / "up" / "n1")
    (tmp_path / "up" / "n1").mkdir()
    with (
        LocalCluster(3, tmp_path / "up", 0.3) as cluster,
        pytest.raises(StateError, match=rf"n1 is empty .* n2, n3 of cluster {identity}.* rescue"),
    ):
        cluster.start()
    assert not any((tmp_path / "up" / "n1").iterdir())
    (tmp_path / "new" / "n1").mkdir(parents=True)
    with (
        LocalCluster(1, tmp_path / "new", 0.3) as cluster,
        pytest.raises(StateError, match="say first: snowmelt found --data"),
    ):
        cluster.start()


def test_a_cluster_is_founded_in_etcd_once_and_over_nothing() -> None:
    place, model = EtcdPlace.read("etcd://127.0.0.1:2379/orders"), Model()

    def carry(request: object) -> object:
        return model.answer(request, Instant(0))

    identity = found_in_etcd(place, "orders", carry)
    with pytest.raises(StateError, match=rf"orders has cluster {identity} \('orders'\)"):
        found_in_etcd(place, "orders", carry)
    model = Model()
    carry(Transact(1, (), (PutKey("~home/orders", b"of another"),)))
    with pytest.raises(StateError, match="is not empty; nothing was founded"):
        found_in_etcd(place, "orders", carry)


def test_a_node_s_folder_is_refused_as_an_embedded_one(two: Two) -> None:
    two.node.kill()
    folder = str(two.node.folder)
    ended = ran("put", "q", "x", "--data", folder)
    assert ended.returncode == 2
    assert f"of node n1 of cluster {two.old}" in ended.stderr
    assert "--url" in ended.stderr
    with pytest.raises(BadOption, match="snowmelt node --data"):
        snowmelt.open(folder)

    async def run() -> None:
        async with snowmelt.aio.open(folder):
            pass

    with pytest.raises(BadOption, match="snowmelt node --data"):
        asyncio.run(run())
    two.node.start()


def test_an_embedded_folder_is_refused_as_a_node_s(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path / "here") as cluster:
        cluster.fifo("q").put(b"x")
    for command in (
        ("node", "--id", "n1", "--listen", f"127.0.0.1:{free_port()}"),
        ("node", "--id", "n1", "--join", f"127.0.0.1:{free_port()}"),
        ("found",),
    ):
        ended = ran(*command, "--data", str(tmp_path / "here"))
        assert ended.returncode == 2
        assert "this one has embedded queues" in ended.stderr
        assert "snowmelt.open" in ended.stderr
    with snowmelt.open(tmp_path / "here") as cluster:
        assert cluster.fifo("q").get(timeout=5).body == b"x"


def test_up_founds_nothing_within_a_folder_that_is_somebody_s(tmp_path: Path) -> None:
    founded = found_on_disk(tmp_path / "founded", NodeId("n1"))
    with snowmelt.open(tmp_path / "here") as cluster:
        cluster.fifo("q").put(b"x")
    for name, whose in (
        ("founded", f"of node n1 of cluster {founded}.*snowmelt node --data"),
        ("here", "has embedded queues.*snowmelt.open"),
    ):
        with (
            LocalCluster(1, tmp_path / name, 0.3) as local,
            pytest.raises(BadOption, match=f"{name}.*{whose}"),
        ):
            local.start()
        assert not (tmp_path / name / "n1").exists()


def test_a_folder_with_nodes_in_it_is_refused_as_an_embedded_one(tmp_path: Path) -> None:
    founded = found_on_disk(tmp_path / "up" / "n1", NodeId("n1"))
    with pytest.raises(BadOption, match=f"up.* n1 of cluster {founded}.*--url"):
        snowmelt.open(tmp_path / "up")
    assert [one.name for one in (tmp_path / "up").iterdir()] == ["n1"]


def test_so_is_one_whose_nodes_run_and_one_round_embedded_queues_is_not(tmp_path: Path) -> None:
    found_on_disk(tmp_path / "up" / "n1", NodeId("n1"))
    with Store.open(tmp_path / "up" / "n1"):  # as a node that runs has it
        began = time.monotonic()
        with pytest.raises(BadOption, match=r"in it a program has .*n1 open"):
            snowmelt.open(tmp_path / "up")
        assert time.monotonic() - began < 5
    with snowmelt.open(tmp_path / "all" / "orders") as orders:
        orders.fifo("q").put(b"x")
    with snowmelt.open(tmp_path / "all") as everything:
        everything.fifo("q").put(b"y")
