"""Two settings of one queue, made where nobody knew of the other: queues, rules 3 to 5."""

from typing import Any

import pytest
from priority_bench import Nodes, bodies, part, receipt
from test_priority_failures import SMALL

from snowmelt.core.instant import seconds
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.messages import Declare, Declared, Made
from snowmelt.protocols.priority.settings import ANY, QueueSettings

SHORT = {"lease": seconds(30)}
LONG = {"lease": seconds(60)}
ANY_AT_ALL = {"priorities": ANY}


def wanted(settings: dict[str, Any]) -> QueueSettings:
    """Of four priorities unless others are said."""
    return QueueSettings(queue="jobs", **{"priorities": 4, **settings})


def root_of(*members: str) -> str:
    """Who makes the queue in a view of these."""
    return FlatTree([NodeId(one) for one in members], "jobs", 1).root.node


def half_made(nodes: Nodes, *members: str, **settings: Any) -> str:
    """Nobody but who makes it hears of it; who that is."""
    nodes.view(*members)
    nodes.lost = lambda _source, _target, message: type(message) is Declare
    root = root_of(*members)
    nodes.ask(root, calls.Open("jobs", wanted(settings)))
    nodes.stop(root)
    nodes.lost = lambda *_: False
    return root


def put(nodes: Nodes, node: str, some: list[bytes], key: int | None, priority: int = 0) -> None:
    """With a key where priorities have no number."""
    plain = part(priority, some)
    keys = b"" if key is None else packed([key] * len(some))
    parts = (calls.Part(priority, plain.offsets, plain.blob, keys),)
    told = nodes.call(node, calls.Put("jobs", nodes.via(node), parts))
    assert isinstance(told, calls.PutDone), told


def are(nodes: Nodes, *members: str, **settings: Any) -> None:
    """All of these say that the queue has these settings, and no others."""
    for node in members:
        nodes.pass_time(1)
        told = nodes.open(node, **settings)
        assert isinstance(told, calls.Opened), (node, told)
        assert told.settings == wanted(settings)


@pytest.mark.parametrize(
    ("half", "whole"), [(SHORT, LONG), (LONG, SHORT), (SHORT, ANY_AT_ALL)], ids=["<", ">", "any"]
)
def test_one_that_was_half_made_does_not_replace_one_in_use(half: Any, whole: Any) -> None:
    nodes = Nodes(3, SMALL)
    away = half_made(nodes, *nodes.members, **half)
    here = [name for name in nodes.members if name != away]
    nodes.view(*here)
    are(nodes, *here, **whole)
    put(nodes, here[0], [b"kept"], 0 if whole is ANY_AT_ALL else None)
    nodes.restart(away)
    nodes.view(*nodes.members)
    are(nodes, *nodes.members, **whole)
    assert bodies(nodes.get(away, 9)) == [b"kept"]
    for name in nodes.members:  # it is so on all disks
        nodes.stop(name)
    for name in nodes.members:
        nodes.restart(name)
    nodes.view(*nodes.members)
    are(nodes, *nodes.members, **whole)


@pytest.mark.parametrize(("first", "later"), [(SHORT, LONG), (LONG, SHORT)], ids=["<", ">"])
def test_a_half_made_one_that_all_have_heard_of_since_counts_more_than_one_begun_later(
    first: Any, later: Any
) -> None:
    nodes = Nodes(3, SMALL)
    one = half_made(nodes, *nodes.members, **first)
    two = half_made(nodes, *[name for name in nodes.members if name != one], **later)
    (third,) = [name for name in nodes.members if name not in (one, two)]
    nodes.restart(one)
    nodes.view(one, third)
    are(nodes, one, third, **first)
    nodes.restart(two)
    nodes.view(*nodes.members)
    are(nodes, *nodes.members, **first)


@pytest.mark.parametrize(("first", "later"), [(SHORT, LONG), (LONG, SHORT)], ids=["<", ">"])
def test_what_was_made_where_nobody_knew_the_half_made_one_counts_though_nobody_heard_that_it_was(
    first: Any, later: Any
) -> None:
    nodes = Nodes(3, SMALL)
    away = half_made(nodes, *nodes.members, **first)
    here = [name for name in nodes.members if name != away]
    nodes.view(*here)
    root = root_of(*here)
    (other,) = [name for name in here if name != root]
    nodes.lost = lambda _source, _target, message: type(message) is Made
    are(nodes, root, **later)
    nodes.lost = lambda *_: False
    nodes.stop(root)
    nodes.restart(away)
    nodes.view(away, other)
    are(nodes, away, other, **later)


def test_of_two_that_clients_were_told_of_apart_the_earlier_counts_with_what_is_in_both() -> None:
    nodes = Nodes(2, SMALL)
    nodes.stop("n2")
    nodes.view("n1")
    are(nodes, "n1", **SHORT)
    nodes.put("n1", (1, b"first"))
    nodes.stop("n1")
    nodes.restart("n2")
    nodes.view("n2")
    are(nodes, "n2", **LONG)
    some = [b"%d" % number for number in range(8)]  # so that some stay with n2
    call = nodes.put_call("n2", *[(0, body) for body in some])
    number = nodes.ask("n2", call)
    assert isinstance(nodes.told(number), calls.PutDone)
    nodes.stop("n2")  # its client has not heard that
    nodes.restart("n1")
    nodes.restart("n2")
    nodes.view("n1", "n2")
    are(nodes, "n1", "n2", **SHORT)
    assert isinstance(nodes.open("n1", **LONG), Declined)
    nodes.ask("n1", call, number)
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), calls.PutDone)
    assert bodies(nodes.get("n1", 20)) == [*some, b"first"]


@pytest.mark.parametrize(("first", "later"), [(4, ANY), (ANY, 4), (4, 2), (2, 4)])
def test_of_two_of_other_kinds_that_clients_were_told_of_apart_the_earlier_goes_on(
    first: int, later: int
) -> None:
    def some(node: str, priorities: int, body: bytes) -> None:
        nodes.view(node)
        are(nodes, node, priorities=priorities)
        key = None if priorities else 7
        put(nodes, node, [body] * 9, key, max(0, priorities - 1))

    nodes = Nodes(2, SMALL)
    nodes.stop("n2")
    some("n1", first, b"first")
    nodes.stop("n1")
    nodes.restart("n2")
    some("n2", later, b"later")
    nodes.restart("n1")
    for _ in range(2):
        nodes.view("n1", "n2")
        are(nodes, "n1", "n2", priorities=first)
        leased = nodes.get("n2", 50)
        assert [one for one in bodies(leased) if one == b"first"] == [b"first"] * 9
        nodes.settle("n1", back=(receipt(leased),))
        for name in nodes.members:  # and on all disks
            nodes.stop(name)
        for name in nodes.members:
            nodes.restart(name)


@pytest.mark.parametrize("again", [False, True], ids=["learnt", "half made"])
def test_nobody_is_told_of_a_queue_that_this_disk_does_not_have_yet(again: bool) -> None:
    nodes = Nodes(2, SMALL)
    nodes.view("n1")
    assert isinstance(nodes.open("n1"), calls.Opened)
    nodes.hanging.add("n2")
    nodes.view("n1", "n2")
    if again:  # the view changes once more before it is flushed
        nodes.view("n2", "n1")
    asked = nodes.ask("n2", calls.Open("jobs"))
    nodes.pass_time(1)
    assert nodes.told(asked) is None
    nodes.flush()
    assert isinstance(nodes.told(asked), calls.Opened)
    nodes.stop("n1")  # and never comes back
    nodes.stop("n2")
    nodes.restart("n2")
    nodes.view("n2")
    assert isinstance(nodes.call("n2", calls.Open("jobs", None, False)), calls.Opened)


def test_what_clients_were_told_of_counts_though_all_who_know_it_stop_at_once() -> None:
    nodes = Nodes(3, SMALL)
    here, away = ["n1", "n2"], "n3"
    nodes.view(*here)

    def hangs(_source: str, _target: str, message: Any) -> bool:
        if type(message) is Declared:  # all know it, and no disk will know that they do
            nodes.hanging.update(here)
        return False

    nodes.lost = hangs
    asked = nodes.ask(root_of(*here), calls.Open("jobs", wanted(SHORT)))
    nodes.pass_time(1)
    assert nodes.hanging
    nodes.lost = lambda *_: False
    told = nodes.told(asked)
    for name in here:
        nodes.stop(name)
    nodes.view(away)
    are(nodes, away, **LONG)
    for name in here:
        nodes.restart(name)
    nodes.hanging.clear()
    nodes.view(*nodes.members)
    are(nodes, *nodes.members, **(LONG if told is None else SHORT))
