"""Staged puts and kept leases on whole nodes: what may be said again says the same again."""

from typing import Any

import pytest
from priority_bench import Nodes, bodies, receipt

from snowmelt.core.instant import seconds
from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.calls import Receipt
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import ERASED
from snowmelt.sim.disk import Copy

SMALL = Limits(block=2, deal=0, arity=2)
HOUR = seconds(3600)


def staged(nodes: Nodes, *some: tuple[int, bytes], **options: Any) -> Receipt:
    return Receipt(0, nodes.put("n1", *some, **{"hold": HOUR, **options}).shares)


def shown(nodes: Nodes, node: str, one: Receipt) -> list[bytes]:
    answer = nodes.call(node, calls.Show("jobs", one))
    assert isinstance(answer, calls.Shown), answer
    return bodies(answer)  # type: ignore[arg-type]  # it has pieces, as they have


# --- staged puts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_staged_is_nobodys_until_it_is_published(count: int) -> None:
    nodes = Nodes(count, SMALL)
    nodes.open("n1", replicas=2)
    one = staged(nodes, (2, b"late"), (0, b"soon"), (2, b"later"))
    assert bodies(nodes.get("n1", 5)) == []
    assert nodes.call("n1", calls.Statistics("jobs")).staged == 3
    assert nodes.settle(f"n{count}", publish=(one,)) == calls.Settled()
    assert bodies(nodes.get("n1", 5)) == [b"soon", b"late", b"later"]


def test_to_publish_again_does_nothing_whatever_became_of_it() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    one = staged(nodes, *[(0, b"%d" % number) for number in range(6)])
    assert nodes.settle("n1", publish=(one,)) == calls.Settled()
    got = nodes.get("n2", 2)
    assert nodes.settle("n2", done=(receipt(got),)) == calls.Settled()
    held, back = nodes.get("n3", 2), nodes.get("n3", 1)
    nodes.settle("n3", back=(receipt(back),))
    assert nodes.settle("n1", publish=(one,)) == calls.Settled()
    assert bodies(nodes.get("n1", 9)) == [b"4", b"5"]
    assert bodies(held) == [b"2", b"3"]
    nodes.restart("n1")
    nodes.restart("n2")
    nodes.restart("n3")
    nodes.view("n1", "n2", "n3")
    assert nodes.settle("n2", publish=(one,)) == calls.Settled()
    assert nodes.call("n1", calls.Statistics("jobs")).leased == 4


def test_what_nobody_publishes_is_erased_and_can_not_be_published_any_more() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", replicas=2)
    one = staged(nodes, (0, b"a"), (0, b"b"), (0, b"c"), hold=seconds(5))
    nodes.pass_time(5 + ERASED / 1e9 + 1)
    assert nodes.settle("n2", publish=(one,)).lost == (one,)
    status = nodes.call("n1", calls.Statistics("jobs"))
    assert (status.staged, status.ready) == (0, ())
    nodes.restart("n1")
    nodes.view("n1", "n2")
    assert nodes.settle("n1", publish=(one,)).lost == (one,)


def test_what_is_published_after_its_time_is_erased_though_no_clock_has_done_it() -> None:
    nodes = Nodes(1)
    nodes.open("n1")
    one = staged(nodes, (0, b"a"), hold=seconds(5))
    nodes.pass_time(6)
    assert nodes.settle("n1", publish=(one,)).lost == (one,)
    assert bodies(nodes.get("n1")) == []


def test_what_was_staged_with_a_delay_is_due_that_long_after_it_is_published() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", replicas=2)
    one = staged(nodes, (0, b"a"), delay=seconds(10))
    nodes.pass_time(20)
    nodes.settle("n1", publish=(one,))
    assert bodies(nodes.get("n2")) == []
    nodes.pass_time(11)
    assert bodies(nodes.get("n2")) == [b"a"]


def test_what_lies_with_who_is_away_is_told_apart_from_what_is_erased() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1)
    one = staged(nodes, *[(0, b"%d" % number) for number in range(40)])
    nodes.stop("n3")
    nodes.view("n1", "n2")
    told = nodes.settle("n1", publish=(one,))
    assert told.away == told.lost
    assert told.lost
    nodes.restart("n3")
    nodes.view("n1", "n2", "n3")
    assert nodes.settle("n2", publish=(one,)) == calls.Settled()
    assert len(bodies(nodes.get("n1", 100))) == 40


def test_what_is_staged_counts_in_a_bounded_queue_until_it_is_erased() -> None:
    nodes = Nodes(1)
    nodes.open("n1", items_max=2)
    staged(nodes, (0, b"a"), (0, b"b"), hold=seconds(5))
    assert isinstance(nodes.call("n1", nodes.put_call("n1", (0, b"c"))), Declined)
    nodes.pass_time(30)
    nodes.put("n1", (0, b"c"))


@pytest.mark.parametrize("slow", ["n1", "n2"])
@pytest.mark.parametrize("word", ["publish", "keep"])
def test_what_is_said_again_is_answered_when_all_copies_know_it(slow: str, word: str) -> None:
    nodes = Nodes(2)
    nodes.open("n1", replicas=2)
    one = staged(nodes, (0, b"a"), (0, b"b"))
    if word == "keep":
        nodes.settle("n1", publish=(one,))
        one = receipt(nodes.get("n1", 2))
    nodes.hanging = {slow}
    words: dict[str, Any] = {word: (one,)}
    first = nodes.ask("n1", calls.Settle("jobs", **words))
    again = nodes.ask("n1", calls.Settle("jobs", **words))
    nodes.pass_time(1)
    assert (nodes.told(first), nodes.told(again)) == (None, None)


# --- kept leases ----------------------------------------------------------------------------------


def test_a_kept_lease_outlives_its_time_and_views_and_all_nodes() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2, lease=seconds(2))
    nodes.put("n1", *[(number % 2, b"%d" % number) for number in range(8)])
    got = nodes.get("n2", 5)
    one = receipt(got)
    assert nodes.settle("n3", keep=(one,)) == calls.Settled()
    nodes.pass_time(60)
    assert len(bodies(nodes.get("n1", 9))) == 3
    for name in ("n1", "n2", "n3"):
        nodes.restart(name)
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(60)
    assert shown(nodes, "n1", one) == bodies(got)
    assert nodes.settle("n1", keep=(one,)) == calls.Settled()
    assert nodes.settle("n1", done=(one,)) == calls.Settled()
    assert shown(nodes, "n2", one) == []
    assert len(bodies(nodes.get("n1", 9))) == 3


def test_a_part_that_is_kept_is_held_when_the_lease_of_the_rest_ends() -> None:
    nodes = Nodes(1)
    nodes.open("n1", lease=seconds(2))
    nodes.put("n1", (0, b"a"), (1, b"b"))
    got = nodes.get("n1", 2)
    first = receipt(calls.Leased(got.token, got.pieces[:1], got.lease, got.order))
    nodes.settle("n1", keep=(first,))
    nodes.pass_time(5)
    assert bodies(nodes.get("n1", 5)) == [b"b"]
    assert shown(nodes, "n1", receipt(got)) == [b"a"]


def test_a_lease_that_is_over_can_not_be_kept_and_shows_nothing() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", lease=seconds(2))
    nodes.put("n1", (0, b"a"))
    one = receipt(nodes.get("n2"))
    nodes.pass_time(3)
    second = nodes.get("n1")
    assert nodes.settle("n1", keep=(one,)).lost == (one,)
    assert shown(nodes, "n1", one) == []
    assert shown(nodes, "n1", receipt(second)) == [b"a"]


def test_what_is_kept_and_given_back_comes_first_again() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    nodes.put("n1", (0, b"a"), (0, b"b"), (0, b"c"))
    one = receipt(nodes.get("n2", 2))
    nodes.settle("n3", keep=(one,))
    nodes.settle("n1", back=(one,))
    assert bodies(nodes.get("n1", 5)) == [b"a", b"b", b"c"]


def test_what_is_kept_and_lies_with_who_is_away_is_told_so() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(40)])
    one = receipt(nodes.get("n2", 40))
    nodes.settle("n3", keep=(one,))
    nodes.stop("n3")
    nodes.view("n1", "n2")
    answer = nodes.call("n1", calls.Show("jobs", one))
    assert answer.away
    assert sum(share.total for share in (*answer.away, *answer.held)) == 40
    nodes.restart("n3")
    nodes.view("n1", "n2", "n3")
    assert shown(nodes, "n1", one) == [b"%d" % number for number in range(40)]


@pytest.mark.parametrize("hurt", ["n1", "n2"])
def test_what_is_kept_and_its_home_can_not_read_is_shown_from_another_copy(hurt: str) -> None:
    nodes = Nodes(2)
    nodes.open("n1", replicas=2)
    nodes.put("n1", (0, b"a"), (1, b"b"))
    one = receipt(nodes.get("n1", 2))
    nodes.settle("n1", keep=(one,))
    disk = nodes.disks[NodeId(hurt)]
    kept = disk.copy()
    values = {
        key: (value, check ^ key.startswith(BULK)) for key, (value, check) in kept.values.items()
    }
    disk.put_back(Copy(kept.keys, values))
    nodes.restart("n1")
    nodes.restart("n2")
    nodes.view("n1", "n2")
    for _ in range(2):
        shown(nodes, "n1", one)
        nodes.pass_time(1)
    assert shown(nodes, "n2", one) == [b"a", b"b"]
    assert nodes.settle("n1", done=(one,)) == calls.Settled()
