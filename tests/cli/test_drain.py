"""`snowmelt drain`: a node is emptied under load; then its machine and its disk may go."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import snowmelt
from cli.program import snowmelt as run
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import BadOption


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        yield cluster


def test_what_was_put_while_a_node_was_drained_survives_the_loss_of_its_disk(
    three: LocalCluster, tmp_path: Path
) -> None:
    queues: list[snowmelt.Fifo] = []
    told: dict[str, int] = {}
    over = threading.Event()
    with snowmelt.connect(three.url) as cluster:
        leaders: set[str] = set()
        while len(queues) < 8 or leaders != {"n1", "n2", "n3"}:  # one that has just joined as well
            queue = cluster.fifo(f"q{len(queues)}", replicas=1)
            queue.put_many([b"x"] * 1000)
            told[queue.name] = 1000
            leaders.add(queue.stats().leader)
            queues.append(queue)
            assert len(queues) < 100, leaders

        def load() -> None:
            while not over.is_set():
                for queue in queues:
                    queue.put(b"y", timeout=30)
                    told[queue.name] += 1

        loader = threading.Thread(target=load)
        loader.start()
        try:
            ended = run("drain", "n3", "--url", three.url)
        finally:
            over.set()
            loader.join()
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith("n3 is empty: it keeps no queue, and its disk may go.")
        three.nodes[2].kill()
        shutil.rmtree(tmp_path / "n3")
        three.wait_for(["n1", "n2"], 30)
        assert run("forget", "n3", "--url", three.url).stdout == "n3 is free\n"
        found = {queue.name: queue.stats().ready for queue in queues}
        assert found == told
        for queue in queues:
            assert len(queue.get_many(10_000, timeout=5)) == told[queue.name]


def test_a_node_that_can_t_be_spared_says_so_and_how_to_go_on(three: LocalCluster) -> None:
    with snowmelt.connect(three.url) as cluster:
        cluster.fifo("all", replicas=3, durable_copies=3).put(b"x")
        ended = run("drain", "n2", "--url", three.url)
        assert (ended.returncode, ended.stdout) == (4, "")
        assert (
            "n2 has 1 queue with 1 item, which need as many nodes as there are (all)"
            in ended.stderr
        )
        assert "snowmelt drain n2 --undo" in ended.stderr
        assert cluster.drain("n2").drains
        assert "n2 is being drained" in run("status", "--url", three.nodes[1].url).stdout
        late = run("drain", "n2", "--url", three.url, "--within", "0.2")
        assert (late.returncode, "n2 has 1 queue with 1 item still" in late.stderr) == (5, True)
        undone = run("drain", "n2", "--undo", "--url", three.url, "--json")
        assert json.loads(undone.stdout)["drains"] is False


def test_only_who_is_here_is_drained(three: LocalCluster) -> None:
    ended = run("drain", "n9", "--url", three.url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "node is 'n9'; allowed: a node that is present: n1, n2, n3" in ended.stderr
    with snowmelt.connect(three.url) as cluster, pytest.raises(BadOption, match="node id is"):
        cluster.drain("not a name")


def test_the_node_that_decides_on_members_keeps_its_disk(three: LocalCluster) -> None:
    with snowmelt.connect(three.url) as cluster:
        cluster.fifo("one", replicas=1).put(b"x")
    ended = run("drain", "n1", "--url", three.url)
    assert "n1 is empty: it keeps no queue, and it decides on the members" in ended.stdout
    assert json.loads(run("drain", "n1", "--json", "--url", three.url).stdout)["empty"] is True
    assert "n1 is drained: it keeps no queue" in run("status", "--url", three.nodes[0].url).stdout
    assert "drained: empty" in run("doctor", "--url", three.url, "--json").stdout
