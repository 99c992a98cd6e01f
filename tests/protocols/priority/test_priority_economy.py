"""What an operation costs is counted: flushes, messages, and what is looked at."""

from priority_bench import Nodes, bodies

from snowmelt.core.instant import seconds
from snowmelt.protocols.priority import calls


def test_what_comes_while_the_disk_writes_is_flushed_together() -> None:
    nodes = Nodes(1)
    nodes.open("n1")
    nodes.hanging.add("n1")
    puts = [nodes.ask("n1", nodes.put_call("n1", (0, b"%d" % at))) for at in range(64)]
    nodes.flush()
    assert all(nodes.told(number) is not None for number in puts)
    assert nodes.written[-2:] == [2, 2]

    nodes.hanging.add("n1")
    gets = [nodes.ask("n1", nodes.get_call("n1")) for _ in range(64)]
    nodes.flush()
    assert [bodies(nodes.told(number)) for number in gets] == [[b"%d" % at] for at in range(64)]
    assert nodes.written[-2:] == [1, 63]


def test_who_waits_in_vain_while_the_disk_writes_hears_so_when_it_has() -> None:
    nodes = Nodes(1)
    nodes.open("n1")
    nodes.hanging.add("n1")
    put = nodes.ask("n1", nodes.put_call("n1", (0, b"one")))
    got = nodes.ask("n1", nodes.get_call("n1", 2))
    late = nodes.ask("n1", calls.Get("jobs", nodes.via("n1"), 1, seconds(0)))
    nodes.flush()
    assert nodes.told(put) is not None
    assert bodies(nodes.told(got)) == [b"one"]
    assert bodies(nodes.told(late)) == []
