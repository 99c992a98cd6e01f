"""What is far too large is refused for its size, in a sentence, before anything is made of it."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from node_bench import NodeBench

from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Assign, Describe, Fetch, Plan, Put, Span

MUCH = 4_000_000
NAME = "a" * MUCH
MARKS = "\0" * MUCH


@contextmanager
def little_memory(most: int) -> Iterator[None]:
    """Fails when what is done within takes more, at any moment."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most, peak


@pytest.mark.parametrize(
    "request_",
    [
        Describe(NAME),
        Describe(MARKS),
        Put("q", NAME, 1, bytes(8), b""),
        Put("q", "p", 1, bytes(MUCH), b""),
        Put("q", "p", 1, bytes(8), b"", caller=NAME),
        Assign("q", MARKS, 0, "r", 0, 1, 1),
        Fetch("q", Span(0, 1, MARKS, 0, ()), 1),
        Plan("q", MARKS, 1, ()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_it_costs_no_more_than_it_has(request_: Any) -> None:
    bench = NodeBench()
    bench.open()
    with little_memory(MUCH // 2):
        answer = bench.answer(request_)
    assert isinstance(answer, Declined)
    assert answer.error in ("BadOption", "TooLarge")
    assert len(answer.text) < 2_000
