"""How tests are dealt out, what none of them looks through, and that Ctrl-C reaches them.

Where several run the tests, what takes long comes first, and what is alike goes to the same one.
Each of them is given as many neighbours as the others, and takes half of what another has left,
from its end, when it has done its own. So what begins its share is done by one: all that share a
Spark; and what ends it is quick, so that nobody is waited for at last.
"""

import gc
import os
import signal

import pytest
from hypothesis import settings

settings.load_profile("ci")
"""The same examples each time, however slow the machine is."""

ROWS = (
    (  # each starts a Java, or several; then many short programs
        "tests/spark/test_exactly_once.py",
        "tests/cluster/",
        "tests/cli/test_demo.py",
        "tests/cli/test_pipeline.py",
        "tests/spark/test_java.py",
        "tests/cli/",
        "tests/examples/",
    ),
    ("tests/spark/",),  # all share one Java
    ("tests/client/",),  # leases and nodes are waited for
    ("tests/runtime/", "tests/ordinary/", "tests/sim/"),
)
"""What is begun with, and in which order; of what is not named here no test takes seconds."""


def pytest_sessionstart() -> None:
    """In the background SIGINT may be ignored, also by what tests start; some of them send it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # when it is known which are run
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count > 1:
        items[:] = dealt(items, count)


def pytest_collectstart() -> None:
    """What is collected stays: no collection of garbage looks through it, no fork copies it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on there is garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def dealt(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """The same in an order of which each has its row at the beginning of its share."""
    places = {path: (row, at) for row, paths in enumerate(ROWS) for at, path in enumerate(paths)}
    heads: list[list[tuple[int, pytest.Item]]] = [[] for _ in range(count)]
    rest = []
    for item in items:
        found = next((path for path in places if item.nodeid.startswith(path)), None)
        if found is None:
            rest.append(item)
        else:
            row, at = places[found]
            heads[row % count].append((row * len(items) + at, item))
    ordered: list[pytest.Item] = []
    for number, head in enumerate(heads):
        row = [item for _, item in sorted(head, key=lambda one: one[0])] + rest
        share = (len(items) - len(ordered)) // (count - number)
        ordered += row[:share]
        rest = row[share:]
    return ordered
