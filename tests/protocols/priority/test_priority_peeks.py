"""A peek shows the next elements without one left out between: fewer, where one answer ends."""

import pytest
from priority_bench import Nodes, bodies, part

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.keys import packed
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import ANY

FORMS = pytest.mark.parametrize(
    ("priorities", "largest_first"), [(16, False), (16, True), (ANY, False), (ANY, True)]
)


def filled(
    count: int, limits: Limits, priorities: int, sizes: list[int], *, largest_first: bool = False
) -> Nodes:
    """Elements of these sizes, each put by itself; the most urgent is 0, then come 1, 2, and so on.

    They are put in the order of their priorities' numbers.
    """
    nodes = Nodes(count, limits)
    nodes.open("n1", priorities=priorities, largest_first=largest_first)
    for number, size in enumerate(sizes):
        rank = len(sizes) - 1 - number if largest_first else number
        body, key = b"%x" % rank * size, packed([number]) if priorities == ANY else b""
        batch = Bodies.of([body])
        one = part(number, [body])
        if key:
            one = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), key)
        done = nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (one,)))
        assert isinstance(done, calls.PutDone), done
    return nodes


def shown(nodes: Nodes, most: int = 100) -> list[int]:
    """What a peek shows, in its order."""
    answer = nodes.call("n1", calls.Peek("jobs", most))
    assert isinstance(answer, calls.Peeked), answer
    return [int(bytes(body[:1]), 16) for piece in answer.pieces for body in _rows(piece)]


def _rows(piece: calls.Piece) -> list[bytes]:
    return [bytes(body) for body in Bodies(piece.offsets, piece.blob)]


@FORMS
def test_what_was_too_much_to_be_read_at_once_is_not_passed_over(
    priorities: int, largest_first: bool
) -> None:
    limits = Limits(read=60, recent=100)  # of four, the last one or two that came are at hand
    sizes = [50, 50, 50, 50]
    nodes = filled(1, limits, priorities, sizes, largest_first=largest_first)
    found = shown(nodes)
    assert found == list(range(len(found)))
    assert found


@FORMS
def test_what_does_not_fit_into_what_a_home_tells_is_not_passed_over(
    priorities: int, largest_first: bool
) -> None:
    limits = Limits(block=1, deal=0, arity=2)
    nodes = filled(3, limits, priorities, [3 << 19] * 10, largest_first=largest_first)
    found = shown(nodes)
    assert found == list(range(len(found)))
    assert found


def test_as_many_as_are_asked_for_are_shown_where_they_fit() -> None:
    nodes = filled(3, Limits(block=1, deal=0, arity=2), 16, [1] * 8)
    assert shown(nodes, 5) == [0, 1, 2, 3, 4]
    assert len(bodies(nodes.call("n2", calls.Peek("jobs", 100)))) == 8
