"""How many a purge, or a redrive, is told to have had when views end meanwhile."""

from typing import Any

import pytest
from priority_bench import Nodes, part, receipt
from test_priority_failures import SMALL

from snowmelt.core.instant import Duration
from snowmelt.core.keys import packed
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.messages import End, Ended
from snowmelt.protocols.priority.settings import ANY

COUNT = 20


def filled(priorities: int) -> Nodes:
    """Three nodes that each have a part of so many."""
    nodes = Nodes(3, SMALL)
    nodes.open("n1", priorities=priorities, replicas=1)
    plain = part(0, [b"%d" % number for number in range(COUNT)])
    keys = b"" if priorities else packed(range(COUNT))
    some = calls.Part(0, plain.offsets, plain.blob, keys)
    nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (some,)))
    return nodes


def lost_of(kind: type, source: str = "", target: str = "") -> Any:
    """Such messages never arrive, from or to a node."""

    def lost(one: str, other: str, message: Any) -> bool:
        named = (not source or one == source) and (not target or other == target)
        return named and type(message) is kind

    return lost


@pytest.mark.parametrize("priorities", [4, ANY])
@pytest.mark.parametrize(
    "lost",
    [lost_of(Ended), lost_of(Ended, "n2"), lost_of(End), lost_of(End, target="n3")],
    ids=["no answer", "one answer", "no word", "one word"],
)
def test_a_purge_that_views_interrupt_tells_of_all_that_it_removed(
    priorities: int, lost: Any
) -> None:
    nodes = filled(priorities)
    nodes.lost = lost
    number = nodes.ask("n1", calls.Purge("jobs", nodes.via("n1")))
    nodes.pass_time(1)
    assert nodes.told(number) is None
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    nodes.view(*nodes.members)  # and once more
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert nodes.told(number) == calls.Counted(COUNT)


@pytest.mark.parametrize(
    ("call", "lost"),
    [(calls.Purge, lost_of(End, target="n2")), (calls.Redrive, lost_of(End, target="n2"))],
)
def test_dead_ones_of_which_a_home_has_told_are_counted_in_another_view(
    call: Any, lost: Any
) -> None:
    nodes = filled(4)
    held = nodes.get("n1", COUNT)
    nodes.settle("n1", back=(receipt(held),), reason="bad", dead=True, delay=Duration(0))
    nodes.lost = lost
    words = {"dead": True} if call is calls.Purge else {}
    number = nodes.ask("n1", call("jobs", nodes.via("n1"), **words))
    nodes.pass_time(1)
    assert nodes.told(number) is None
    nodes.lost = lambda *_: False
    nodes.view(*nodes.members)
    nodes.pass_time(5)
    assert nodes.told(number) == calls.Counted(COUNT)
