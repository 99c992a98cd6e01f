"""A queue of several partitions is made whole, one way, and spread evenly over the nodes."""

from collections import Counter
from typing import Any

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import Describe, ListQueues, Open, Opened
from snowmelt.protocols.queue.api.deletes import Delete
from snowmelt.protocols.queue.api.partition_names import part_names
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.messages import home_words


def whole(count: int = 3, limits: QueueLimits = LIMITS, **settings: Any) -> ClusterBench:
    """Queue "log" on some nodes."""
    bench = ClusterBench(count, limits)
    settings = {"replicas": min(count, 3), "partitions": 8} | settings
    bench.open("log", **settings)
    return bench


def known(bench: ClusterBench, node: str = "n1") -> dict[str, home_words.Assignment]:
    """The homes that the coordinator knows."""
    slot = bench.slots[NodeId(node)]
    assert slot.node is not None
    return slot.node._controller._kept.known


def test_all_partitions_are_made_and_serve() -> None:
    bench = whole()
    assert sorted(known(bench)) == part_names("log", 8)
    assert all(home.active and home.settings.partitions == 8 for home in known(bench).values())
    for name in part_names("log", 8):
        told = bench.ask("n2", Describe(name))
        assert told.queue == name


def test_who_opens_it_is_told_who_leads_the_first_partition_and_how_many_there_are() -> None:
    bench = whole()
    for node in ("n1", "n2", "n3"):
        for settings in (None, QueueSettings(replicas=3, partitions=8)):
            opened = bench.ask(node, Open("log", settings))
            assert isinstance(opened, Opened)
            assert opened.settings.partitions == 8
            first = known(bench)["log/0"]
            assert first.master.startswith(f"{opened.master.node}/")
            assert opened.since == first.since


@pytest.mark.parametrize(("nodes", "partitions"), [(3, 8), (5, 8), (5, 5), (4, 2), (1, 3)])
def test_leaders_are_spread_evenly(nodes: int, partitions: int) -> None:
    bench = whole(nodes, partitions=partitions)
    led = Counter(home.master for home in known(bench).values())
    shares = [led[one] for one in led] + [0] * (nodes - len(led))
    assert max(shares) - min(shares) <= 1


def test_one_name_is_a_queue_of_so_many_partitions() -> None:
    bench = whole()
    told = bench.ask("n2", Open("log", QueueSettings(replicas=3)))
    assert told.error == "QueueExists"
    assert "partitions=8, asked 1" in told.text
    told = bench.ask("n2", Open("log", QueueSettings(replicas=3, partitions=4)))
    assert "partitions=8, asked 4" in told.text
    bench.open("plain", replicas=3)
    told = bench.ask("n2", Open("plain", QueueSettings(replicas=3, partitions=8)))
    assert told.error == "QueueExists"
    assert "partitions=1, asked 8" in told.text
    assert sorted(known(bench)) == [*part_names("log", 8), "plain"]


def test_two_kinds_asked_for_at_once_are_not_both_made() -> None:
    for first, second in ((1, 4), (4, 1)):
        bench = ClusterBench(3)
        one = bench.call("n1", Open("log", QueueSettings(partitions=first)))
        other = bench.call("n2", Open("log", QueueSettings(partitions=second)))
        bench.run(3)
        told = [bench.answers[one], bench.answers[other]]
        assert sorted(type(each).__name__ for each in told) == ["Declined", "Opened"]
        made = next(each.settings.partitions for each in told if isinstance(each, Opened))
        names = ["log"] if made == 1 else part_names("log", 4)
        assert sorted(known(bench)) == names


def test_a_name_is_told_once() -> None:
    bench = whole()
    bench.open("jobs", priorities=ANY, partitions=2)
    bench.open("plain")
    told = bench.ask("n3", ListQueues())
    assert told.names == ("jobs", "log", "plain")
    assert (told.ranked, told.parted) == (("jobs",), ("jobs", "log"))


def interrupted(bench: ClusterBench, made: int) -> None:
    """The coordinator's process ends once so many are made, and with it who asked for them."""
    bench.drops.append(
        lambda _source, _target, message: (
            isinstance(message, home_words.Assignment) and len(known(bench)) >= made
        )
    )
    bench.call("n2", Open("log", QueueSettings(replicas=2, partitions=6)))
    bench.run(2)
    bench.drops.clear()
    for name in ("n1", "n2"):
        bench.kill(name)
        bench.start(name)
    bench.view()
    bench.run(2)


@pytest.mark.parametrize("made", [1, 3, 5])
def test_an_interrupted_making_is_gone_on_with_by_who_opens_it_next(made: int) -> None:
    bench = ClusterBench(3, QueueLimits(foundations=2))
    interrupted(bench, made)
    assert "log/0" not in known(bench)
    some = len(known(bench))
    assert 0 < some < 6
    assert bench.ask("n2", Open("log", make=False)).error == "NoSuchQueue"
    assert bench.ask("n3", ListQueues()).names == ("log",)
    told = bench.ask("n2", Open("log", QueueSettings(replicas=2)), within=4)
    assert "partitions=6, asked 1" in told.text
    told = bench.ask("n2", Open("log"))
    assert told.error == "Unavailable"
    assert "partitions=6, asked 1" in told.text
    told = bench.ask("n2", Open("log", QueueSettings(replicas=2, partitions=6)), within=4)
    assert told.settings.partitions == 6
    assert sorted(known(bench)) == part_names("log", 6)


def test_what_was_deleted_of_it_is_made_anew_by_who_opens_it_with_its_settings() -> None:
    bench = whole(partitions=4)
    assert bench.ask("n2", Delete("log/2")).counted
    assert sorted(known(bench)) == ["log/0", "log/1", "log/3"]
    bench.ask("n2", Open("log", QueueSettings(replicas=3, partitions=4)))
    assert sorted(known(bench)) == part_names("log", 4)


def test_a_partition_is_not_made_by_its_own_name() -> None:
    bench = whole(partitions=4)
    for ask in (Open("log/9"), Open("log/9", QueueSettings()), Open("other/0")):
        told = bench.ask("n2", ask)
        assert told.error == "BadOption"
        assert "the queue's own name" in told.text
    assert bench.ask("n2", Open("log/9", make=False)).error == "NoSuchQueue"
    assert bench.ask("n2", Open("log/2", make=False)).settings.partitions == 4


def test_partitions_are_counted_where_queues_are_limited() -> None:
    bench = whole(limits=QueueLimits(queues=10), partitions=4)
    told = bench.ask("n2", Open("more", QueueSettings(partitions=8)))
    assert (told.error, "no cluster keeps more than 10" in told.text) == ("BadOption", True)
    assert sorted(known(bench)) == part_names("log", 4)
    bench.open("more", partitions=6)
    assert "10 queues" in bench.ask("n2", Open("one", QueueSettings())).text


def test_nobody_asks_without_end_for_what_is_there() -> None:
    bench = whole()
    before = len(bench.messages("LocateQueue"))
    bench.run(5)
    assert len(bench.messages("LocateQueue")) == before
