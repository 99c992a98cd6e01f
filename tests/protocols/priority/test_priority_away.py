"""Gets that are asked again when nobody here has what they were leased."""

from typing import Any

import pytest
from priority_bench import Nodes, bodies
from test_priority_failures import SMALL, holders

from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.anchor import first_of
from snowmelt.protocols.priority.messages import Follow


def test_a_get_that_was_answered_is_answered_again_though_all_it_had_is_away() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1)
    home = holders(nodes, first_of(1), 1, *nodes.members)[0]
    here = [name for name in nodes.members if name != home]
    nodes.put(here[0], (0, b"away"))
    call = nodes.get_call(here[0], patience=2)
    number = nodes.ask(here[0], call)
    assert bodies(nodes.told(number)) == [b"away"]
    nodes.stop(home)
    nodes.view(*here)
    nodes.put(here[0], (1, b"here"))
    nodes._told.pop(number)  # its client has not heard that
    nodes.ask(here[0], call, number)
    nodes.pass_time(1)
    assert nodes.told(number) == calls.Leased(0, (), nodes.told(number).lease, 0)
    nodes.restart(home)
    nodes.view(*nodes.members)
    assert bodies(nodes.get(here[0], 9)) == [b"here"]
    nodes.pass_time(40)  # the lease of that get is over
    assert bodies(nodes.get(here[0], 9))[0] == b"away"


@pytest.mark.parametrize("there", [True, False])
def test_a_get_begun_elsewhere_gets_what_is_here_when_only_the_word_of_its_lease_is(
    there: bool,
) -> None:
    nodes = Nodes(4, SMALL)
    nodes.open("n1", replicas=2)
    home, copy = holders(nodes, first_of(1), 2, *nodes.members)
    one, two = [name for name in nodes.members if name not in (home, copy)]
    call = nodes.get_call(copy, patience=3)
    nodes.put(home, (0, b"away"))
    number = nodes.ask(copy, call)
    assert bodies(nodes.told(number)) == [b"away"]
    nodes._told.pop(number)  # its client has not heard that

    def copies(_source: Any, _target: Any, message: Any) -> bool:
        return type(message) is Follow and bool(message.elements)

    nodes.stop(copy)
    nodes.lost = copies  # who is to have it hears of the lease, and does not get it
    nodes.view(home, one, two)
    nodes.lost = lambda *_: False
    nodes.stop(home)
    nodes.view(one, two)
    if there:
        nodes.put(one, (1, b"here"))
    nodes.ask(one, call, number)
    nodes.pass_time(5)
    assert bodies(nodes.told(number)) == ([b"here"] if there else [])
