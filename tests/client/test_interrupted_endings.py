"""A signal at each line at which a loop begins or ends: nothing is held for longer than a lease."""

import sys
import threading
import time
from collections.abc import Callable
from itertools import count

import pytest

import snowmelt
from ordinary.interrupting import Interrupted
from snowmelt.cli.local import LocalNode
from snowmelt.client.leases import consuming, leaving, renewer
from wide import wide

LEASE = 2.0


def raised(orders: snowmelt.Fifo) -> None:
    for _ in orders.consume(prefetch=2):
        raise KeyError


def left(orders: snowmelt.Fifo) -> None:
    for _ in orders.consume(prefetch=2):
        break


def closed(orders: snowmelt.Fifo) -> None:
    with orders.consume(prefetch=2) as loop:
        next(loop)


def renewers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "snowmelt-renewer"]


@pytest.mark.parametrize("leave", [*wide(raised), left, closed])
def test_wherever_a_loop_is_interrupted_nobody_holds_its_items_for_good(
    node: LocalNode, leave: Callable[[snowmelt.Fifo], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is raised in a finalizer is nobody's. Here a plugin would keep it, and the loop with it.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo(f"interrupted-{leave.__name__}", lease=LEASE)
        line = 0
        for line in count(1):
            orders.put_many([b"one", b"two"])
            interrupted = Interrupted(line, [consuming, leaving, renewer], "<listcomp>")
            try:
                with interrupted:
                    leave(orders)
            except (KeyError, KeyboardInterrupt):
                pass
            if interrupted.left > 0:
                break
        assert line > 40
        time.sleep(LEASE)
        end = time.monotonic() + 20
        while (orders.stats().leased or renewers()) and time.monotonic() < end:
            time.sleep(0.1)
        assert (orders.stats().leased, renewers()) == (0, [])
