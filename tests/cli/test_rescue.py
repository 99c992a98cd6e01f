"""The coordinator's disk is lost, and the members' folders are enough to found it anew."""

import json
import shutil

import msgspec
import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import BadOption, StateError, StoreBusy, StoreVersion
from snowmelt.core.names import NodeId
from snowmelt.runtime.rescue import Rescue
from snowmelt.store.stamp import encode, read_stamp

ITEMS = 30
QUEUES = {"orders": 2, "letters": 3, "bills": 2}


def _rescue(cluster, *more):
    n1, n2, n3 = (str(node.folder) for node in cluster.nodes)
    return ran("rescue", "--data", n1, "--from", n2, "--from", n3, *more)


def _planned(cluster, *members, lost=()):
    with Rescue(cluster.nodes[0].folder, members, lost) as one:
        return one.plan()


def _put_all(door):
    for name, replicas in QUEUES.items():
        door.fifo(name, replicas=replicas).put_many(_bodies(), timeout=30)
    door.priority("urgent", priorities=3, replicas=2).put_many(_bodies(), priority=1, timeout=30)


def _bodies():
    return [str(number).encode() for number in range(ITEMS)]


def _got_all(queue, token):
    bodies = []
    while len(bodies) < ITEMS:
        with queue.get_many(ITEMS, timeout=30) as items:
            assert items.token > token
            bodies += [item.body for item in items]
    return bodies


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """A cluster of three that was killed at work, without the coordinator's folder."""
    with LocalCluster(3, tmp_path_factory.mktemp("lost"), 0.3) as cluster:
        cluster.epoch = cluster.start().epoch
        with snowmelt.connect(cluster.url) as door:
            orders = door.fifo("orders", replicas=2)
            orders.put(b"acknowledged, and never seen again")
            with orders.get_many(1, timeout=10) as items:
                cluster.token = items.token
            _put_all(door)
            cluster.fence = door.baton("index").acquire(timeout=20).fence
            for node in cluster.nodes[:2]:
                node.kill()
            folders = [node.folder for node in cluster.nodes]
            with pytest.raises(StateError, match=r"there is nothing to rescue\. Start it"):
                _planned(cluster, *folders[1:])
            shutil.rmtree(folders[0])
            with pytest.raises(StoreBusy, match="Nodes must be stopped"):
                _planned(cluster, *folders[1:])
            cluster.nodes[2].kill()
        yield cluster


def test_too_few_folders_are_refused_with_the_names_of_those_that_are_missing(lost):
    with pytest.raises(StateError, match=r"1 of 2 members .* more than half must be: n2, n3"):
        _planned(lost, lost.nodes[1].folder)


def test_what_is_no_members_folder_is_named(lost, tmp_path):
    with pytest.raises(BadOption, match="nowhere"):
        _planned(lost, lost.nodes[1].folder, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(BadOption, match="--data"):
        _planned(lost, lost.nodes[0].folder)


def test_a_folder_of_a_later_version_is_refused_and_not_touched(lost, tmp_path):
    copy = tmp_path / "n3"
    shutil.copytree(lost.nodes[2].folder, copy)
    later = encode(msgspec.structs.replace(read_stamp(copy), version=3))
    (copy / "stamp").write_bytes(later)
    with pytest.raises(StoreVersion, match="has version 3"):
        _planned(lost, lost.nodes[1].folder, copy)
    assert (copy / "stamp").read_bytes() == later


def test_every_acknowledged_item_is_there_after_the_coordinators_disk_was_lost(lost):
    told = _rescue(lost)
    assert told.returncode == 0, told.stderr
    assert "Nothing was written" in told.stdout
    assert "n1 alone and are lost" in told.stdout
    assert not lost.nodes[0].folder.exists()

    done = _rescue(lost, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    kinds = {one["queue"]: (one["kind"], one["left"]) for one in plan["queues"]}
    fifos = dict.fromkeys(QUEUES, ("fifo", "whole"))
    assert kinds == fifos | {"urgent": ("priority", "whole")}
    folders = [node.folder for node in lost.nodes]
    with pytest.raises(StateError, match="nothing to rescue"):  # it is there now
        _planned(lost, *folders[1:])

    view = lost.start()
    assert view.epoch > lost.epoch + 60_000
    assert view.coordinator == NodeId("n1")
    with snowmelt.connect(lost.url) as door:
        for name in QUEUES:
            assert _got_all(door.fifo(name), lost.token) == _bodies()
        assert _got_all(door.priority("urgent"), lost.token) == _bodies()
        assert door.baton("index").acquire(timeout=20).fence > lost.fence
        made_anew = door.fifo("made-anew", replicas=2)
        made_anew.put(b"one")
        with made_anew.get_many(1, timeout=10) as items:
            assert items.token > lost.token
