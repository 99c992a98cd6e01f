"""Folders in which the overlay has queues of priorities: `cluster.priority` is elsewhere now."""

import msgspec
import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.core.errors import StoreVersion
from snowmelt.core.record import Write
from snowmelt.protocols.priority.settings import QueueSettings, Registered
from snowmelt.store import Store


def _registers(folder, **settings):
    """As nodes write down such a queue, twice."""
    one = Registered.of(QueueSettings(**settings), 1)
    value = msgspec.msgpack.encode(one)
    with Store.open(folder) as store:
        store.commit([[Write(b"priority/%b/jobs" % key, value) for key in (b"s", b"t")]])


@pytest.mark.parametrize("settings", [{"priorities": 4}, {}, {"floats": True}], ids=str)
def test_queues_of_priorities_on_the_overlay_are_refused(tmp_path, settings):
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


def test_a_fifo_on_the_overlay_goes_on(tmp_path):
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("log", ordering="overlay").put_many([b"one", b"two"])
        cluster.priority("jobs", priorities=4).put(b"urgent", priority=1)
    with snowmelt.open(tmp_path) as cluster:
        log = cluster.fifo("log", ordering="overlay")
        with log.get_many(2, timeout=10) as items:
            assert [item.body for item in items] == [b"one", b"two"]
        assert cluster.priority("jobs", priorities=4).get(timeout=10).body == b"urgent"
