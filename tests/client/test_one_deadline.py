"""A time-out is one deadline for all of a call: beside a silent node each ends soon after it."""

import asyncio
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.connection.steps import Query, Sleep, Steps, run
from snowmelt.client.connection.waits import within
from snowmelt.client.queue.group_steps import Mark

TIMEOUT = 0.5
MARGIN = 1.0
"""What a call may take longer, among fifty at once on a busy machine."""
GIVEN_MORE = ("Baton.", "Counter.", "Multicast.")
MORE = 2.0
"""Their answer that is on its way is given so many seconds more."""
FACES = (
    snowmelt.Cluster,
    snowmelt.Fifo,
    snowmelt.PriorityQueue,
    snowmelt.Group,
    snowmelt.Baton,
    snowmelt.Held,
    snowmelt.Counter,
    snowmelt.Multicast,
)
NO_CALL = {
    "Cluster.backup",
    "Cluster.baton",
    "Cluster.counter",
    "Cluster.export",
    "Cluster.restore",
    "Held.wait_lost",
    "Multicast.subscribe",
}
"""They take a time-out for what is done later, or for each of many calls, or ask nobody."""
GIVEN: dict[str, tuple[Any, ...]] = {
    "Cluster.delete": ("nothing",),
    "Cluster.drain": ("n1",),
    "Cluster.forget": ("n9",),
    "Cluster.queue": ("deadline",),
    "Fifo.change_item": (0, "ready"),
    "Fifo.item": (0,),
    "Fifo.plan": ((),),
    "Fifo.publish": ((),),
    "Fifo.put": (b"x",),
    "Fifo.put_many": ([b"x"],),
    "Fifo.schedule": ("tick", b"x"),
    "Fifo.stage": ([b"x"],),
    "Fifo.trace": (0,),
    "Fifo.unschedule": ("tick",),
    "PriorityQueue.change_item": (0, "ready"),
    "PriorityQueue.item": (0,),
    "PriorityQueue.plan": ((),),
    "PriorityQueue.publish": ((),),
    "PriorityQueue.put": (b"x",),
    "PriorityQueue.put_many": ([(1, b"x")],),
    "PriorityQueue.quantile": (0.5,),
    "PriorityQueue.last": (1,),
    "PriorityQueue.trace": (0,),
    "PriorityQueue.select": (1,),
    "PriorityQueue.schedule": ("tick", b"x"),
    "PriorityQueue.stage": ([(1, b"x")],),
    "PriorityQueue.unschedule": ("tick",),
    "Group.locate": (Mark(1, 0), Mark(1, 1)),
    "Held.save": (b"x",),
    "Multicast.publish": (b"x",),
    "Multicast.publish_many": ([b"x"],),
}


def calls() -> list[str]:
    """All public calls that take a time-out, found in the faces themselves."""
    return [
        f"{face.__name__}.{name}"
        for face in FACES
        for name, method in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_") and "timeout" in inspect.signature(method).parameters
        if f"{face.__name__}.{name}" not in NO_CALL
    ]


@pytest.fixture
def things(own_node: LocalNode) -> Iterator[dict[str, Any]]:
    """One of each face, used before, and the node stopped."""
    with snowmelt.connect(own_node.url) as cluster:
        fifo = cluster.fifo("deadline", producer="one")
        jobs = cluster.priority("jobs", producer="other", sequence=1)
        fifo.put_many([b"one", b"two"], sequence=1)
        jobs.put_many([(1, b"one"), (2, b"two")])
        group = fifo.group("g")
        group.advance(items_max=1)
        held = cluster.baton("held").acquire()
        topic = cluster.multicast("prices")
        topic.publish(b"first")
        some = (cluster, fifo, jobs, group, cluster.baton("other"), held)
        made = {type(one).__name__: one for one in (*some, cluster.counter("ids"), topic)}
        os.kill(own_node.pid, signal.SIGSTOP)
        yield made
        os.kill(own_node.pid, signal.SIGCONT)


def test_every_call_ends_in_time_beside_a_silent_node(things: dict[str, Any]) -> None:
    took: dict[str, float] = {}
    wrong: dict[str, BaseException] = {}

    def call(name: str) -> None:
        face, _, method = name.partition(".")
        asked: Callable[..., Any] = getattr(things[face], method)
        more = {"plan": {"sequence": 9}, "schedule": {"every": "1h"}}.get(method, {})
        if method == "put" and face != "Fifo":
            more = {"priority": 1}
        begin = time.monotonic()
        try:
            came = asked(*GIVEN.get(name, ()), timeout=TIMEOUT, **more)
            if method == "consume":
                list(came)
        except snowmelt.SnowmeltError:
            pass
        except BaseException as error:
            wrong[name] = error
        took[name] = time.monotonic() - begin

    threads = [threading.Thread(target=call, args=(name,), daemon=True) for name in calls()]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    assert wrong == {}
    assert took.keys() == set(calls())
    late = {
        name: round(seconds, 2)
        for name, seconds in took.items()
        if seconds > TIMEOUT + MARGIN + MORE * name.startswith(GIVEN_MORE)
    }
    assert late == {}


def one_not_at(node: str, cluster: snowmelt.Cluster) -> str:
    """A queue whose only copy is at another node."""
    for number in range(100):
        queue = cluster.fifo(f"next-{number}", replicas=1)
        queue.put(b"first")
        if queue.stats().leader != node:
            return queue.name
    raise AssertionError(f"a hundred queues are all at {node}")


def test_a_stopped_node_that_is_asked_first_costs_half_a_second(tmp_path: Path) -> None:
    """With either face: the next one serves the call."""
    with LocalCluster(3, tmp_path, 0.5) as nodes:
        nodes.start()
        one, two, three = nodes.nodes
        with snowmelt.connect(one.url) as cluster:
            name = one_not_at(three.name, cluster)
        os.kill(three.pid, signal.SIGSTOP)
        where = ",".join(str(node.address) for node in (three, one, two))
        try:
            with snowmelt.connect(f"snowmelt://{where}") as cluster:
                cluster.fifo(name).put(b"second", timeout=2)

            async def put() -> None:
                async with snowmelt.aio.connect(f"snowmelt://{where}") as cluster:
                    await cluster.fifo(name).put(b"third", timeout=2)

            asyncio.run(put())
        finally:
            os.kill(three.pid, signal.SIGCONT)


def test_calls_of_ours_within_one_of_a_persons_have_its_time_together() -> None:
    """Each takes some of it, and what is left is the next one's; none begins when it is over."""
    asked: list[float] = []

    class Slow:
        def call(self, body: Any, timeout: float, target: object = None, weight: int = 0) -> Any:  # noqa: ARG002
            asked.append(timeout)
            time.sleep(min(0.2, timeout))
            if len(asked) == 2:
                raise snowmelt.Unavailable("just now")
            return body

    def five() -> Steps[int]:
        done = 0
        for _ in range(5):
            try:
                done += yield Query(1, 10.0)
            except snowmelt.Unavailable:
                yield Sleep(9.0)
        return done

    begin = time.monotonic()
    with pytest.raises(snowmelt.Unavailable, match="just now"):
        run(Slow(), within(five(), 0.5))
    assert 0.5 <= time.monotonic() - begin < 5
    assert len(asked) == 2
    assert asked[1] <= asked[0] - 0.2
