"""All queues in one table: three nodes, of which one dies."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import snowmelt
from cli.program import snowmelt as program
from snowmelt.cli.local import LocalCluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("three"), 0.5) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        yield cluster


def looks(nodes: LocalCluster, *words: str) -> list[dict[str, Any]]:
    """What is told of all queues, a look an entry."""
    ended = program(*words, "--json", "--url", nodes.url)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [
        {one["queue"]: one for one in json.loads(line)["queues"]}
        for line in ended.stdout.splitlines()
    ]


def test_rates_are_what_went_in_and_out_between_two_looks(nodes: LocalCluster) -> None:
    with snowmelt.connect(nodes.url) as cluster:
        rates, idle = cluster.fifo("rates"), cluster.fifo("idle")
        idle.put(b"one")
        over = threading.Event()
        count = [0]

        def works() -> None:
            while not over.is_set():
                rates.put_many([b"x"] * 10)
                rates.get_many(5).ack()
                count[0] += 1

        working = threading.Thread(target=works)
        working.start()
        first, last = looks(nodes, "top", "--looks", "2", "--every", "1")
        over.set()
        working.join(60)
        assert count[0] > 10
        told = rates.stats()
        assert told.put == 10 * count[0] == 2 * told.delivered
    assert first["rates"]["put"] < last["rates"]["put"] <= told.put
    into, out = last["rates"]["in_per_second"], last["rates"]["out_per_second"]
    assert into > 0
    assert out == pytest.approx(into / 2, rel=0.5)
    assert (last["idle"]["in_per_second"], last["idle"]["out_per_second"]) == (0, 0)
    assert last["idle"]["oldest"] > 1


def test_copies_that_a_node_took_along_are_missing_until_it_is_back(nodes: LocalCluster) -> None:
    with snowmelt.connect(nodes.url) as cluster:
        three = cluster.fifo("three", replicas=3)
        three.put_many([b"one", b"two"])
        nodes.nodes[2].stop()  # it leaves in order, so nobody waits for it
        nodes.wait_for(["n1", "n2"], 60)
        while len(three.stats().followers) == 2:
            pass
        told = looks(nodes, "queues", "--over", "0")[0]["three"]
        assert (told["copies"], told["replicas"], told["short_of_copies"]) == (2, 3, 2)
        shown = program("queues", "--over", "0", "--url", nodes.url).stdout
        row = next(one for one in shown.splitlines() if one.startswith("three"))
        assert "2 of 3  2 short of copies" in row
        nodes.nodes[2].start()
        nodes.wait_for(["n1", "n2", "n3"], 60)
        while (now := three.stats()).short_of_copies or now.followers_behind:
            pass
        told = looks(nodes, "queues", "--over", "0")[0]["three"]
        assert (told["copies"], told["short_of_copies"]) == (3, 0)


def test_what_is_away_is_told_of_each_queue(nodes: LocalCluster) -> None:
    with snowmelt.connect(nodes.url) as cluster:
        everywhere = cluster.fifo("everywhere")
        everywhere.put(b"one")
        everywhere.pause()
        alone = []
        for number in range(60):
            queue = cluster.fifo(f"alone-{number}", replicas=1)
            queue.put(b"one")
            if queue.stats().leader == "n2":
                alone.append(queue.name)
            if len(alone) == 2:
                break
        before = looks(nodes, "queues", "--over", "0")[0]
        assert (before["everywhere"]["copies"], before["everywhere"]["away"]) == (3, [])
        assert before["everywhere"]["paused"]
        nodes.nodes[1].kill()
        nodes.wait_for(["n1", "n3"], 60)
        while everywhere.stats().leader == "n2":
            pass
        told = looks(nodes, "queues", "--over", "0")[0]
        assert (told["everywhere"]["copies"], told["everywhere"]["replicas"]) == (2, 3)
        assert told["everywhere"]["away"] == ["n2"]
        for name in alone:
            assert (told[name]["leader"], told[name]["ready"]) == ("", 0)
            assert told[name]["waits"].startswith(f"queue {name!r} waits for n2, away for ")
        shown = program("queues", "--over", "0", "--url", nodes.url).stdout
        row = next(one for one in shown.splitlines() if one.startswith("everywhere"))
        assert "paused; n2 away" in row
        row = next(one for one in shown.splitlines() if one.startswith(alone[0] + " "))
        assert "waits for n2, away for" in row
