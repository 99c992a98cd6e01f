"""Folders in which `cluster.priority` made queues on the overlay: it looks elsewhere by now."""

import msgspec
import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.core.errors import StoreVersion
from snowmelt.core.record import Write
from snowmelt.protocols.priority.settings import VERSION, QueueSettings, Registered
from snowmelt.store import Store


def _registers(folder, **settings):
    """As nodes wrote down such a queue, twice."""
    *first, version = msgspec.structs.astuple(Registered.of(QueueSettings(**settings), 1))
    value = msgspec.msgpack.encode(first)
    assert version == VERSION
    with Store.open(folder) as store:
        store.commit([[Write(b"priority/%b/jobs" % key, value) for key in (b"s", b"t")]])


@pytest.mark.parametrize("settings", [{"priorities": 4}, {}, {"floats": True}], ids=str)
def test_priority_queues_of_an_earlier_version_are_refused(tmp_path, settings):
    _registers(tmp_path, queue="jobs", **settings)
    with pytest.raises(StoreVersion) as refused, snowmelt.open(tmp_path):
        pass
    assert str(refused.value).startswith(f"{tmp_path} has priority queues of another version")
    assert "['jobs']; take out what is in them with that version" in str(refused.value)
    with Store.open(tmp_path):
        pass  # it was left as it was, and nobody holds it


def test_a_node_does_not_start_on_them(tmp_path):
    _registers(tmp_path, queue="jobs", priorities=4)
    node = ran("node", "--id", "n1", "--listen", "127.0.0.1:0", "--data", str(tmp_path))
    assert node.returncode != 0
    assert f"{tmp_path} has priority queues of another version" in node.stderr + node.stdout


def test_a_fifo_that_it_made_on_the_overlay_goes_on(tmp_path):
    _registers(tmp_path, queue="jobs", priorities=1)
    with snowmelt.open(tmp_path) as cluster:
        assert cluster.queues(kind="overlay") == ["jobs"]


def test_what_is_on_the_overlay_goes_on(tmp_path):
    with snowmelt.open(tmp_path) as cluster:
        for name, priorities in (("four", 4), ("any", int)):
            jobs = cluster.priority(name, ordering="overlay", priorities=priorities)
            jobs.put(b"here", priority=1)
        cluster.fifo("log", ordering="overlay").put_many([b"one", b"two"])
        cluster.priority("jobs", priorities=4).put(b"urgent", priority=1)
    with snowmelt.open(tmp_path) as cluster:
        for name in ("four", "any"):
            jobs = cluster.priority(name, ordering="overlay")
            assert jobs.get(timeout=10).body == b"here"
        log = cluster.fifo("log", ordering="overlay")
        with log.get_many(2, timeout=10) as items:
            assert [item.body for item in items] == [b"one", b"two"]
        assert cluster.priority("jobs", priorities=4).get(timeout=10).body == b"urgent"
