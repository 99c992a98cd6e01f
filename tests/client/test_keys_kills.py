"""Real nodes, whose leaders are killed one after the other: order and limits by key hold."""

import threading
import time

import pytest

import snowmelt
from client.killing import kill_leader
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError
from snowmelt_world.check.by_key import check_at_once, check_in_order_by_key, check_per_second
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Valid

KEYS = [f"tenant-{at}" for at in range(6)]


class Seen:
    """What all of them saw."""

    def __init__(self) -> None:
        self.rows: list[Operation] = []
        self.done: set[str] = set()

    def works(self, nodes: LocalCluster, name: str, count: int) -> None:
        """Takes items until all are done."""
        with snowmelt.connect(nodes.url) as client:
            jobs = client.fifo("jobs")
            while len(self.done) < count:
                called = time.monotonic_ns()
                try:
                    items = jobs.get_many(3, timeout=1)
                except (Empty, SnowmeltError):
                    continue
                values = tuple([item.body.decode() for item in items])
                places = tuple([item.position for item in items])
                row = Operation(
                    name, Kind.GET, values, called, time.monotonic_ns(), positions=places,
                    token=items.token,
                    held=called + 3 * 10**9,
                )  # fmt: skip
                self.rows.append(row)
                time.sleep(0.02)
                called, ended = time.monotonic_ns(), Ended.UNKNOWN
                try:
                    items.ack()
                    ended = Ended.SUCCEEDED
                    self.done |= set(values)
                except LeaseLost:
                    ended = Ended.FAILED
                except SnowmeltError:
                    pass
                now = time.monotonic_ns()
                self.rows.append(
                    Operation(name, Kind.ACK, values, called, now, ended, token=row.token)
                )


LONG = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("kills", "partitions"),
    [(2, 1), (1, 3), pytest.param(20, 1, marks=LONG), pytest.param(20, 3, marks=LONG)],
)
def test_order_and_limits_hold_though_leaders_are_killed(
    nodes: LocalCluster, kills: int, partitions: int
) -> None:
    seen, count = Seen(), 60 * (kills + 1)
    with snowmelt.connect(nodes.url) as client:
        jobs = client.fifo(
            "jobs", replicas=3, lease=3, in_order_by_key=True, at_once=4, per_second_by_key=10,
            partitions=partitions,
        )  # fmt: skip
        values = [str(at) for at in range(count)]
        keys = [KEYS[at % len(KEYS)] for at in range(count)]
        called = time.monotonic_ns()
        (where,) = jobs.put_many([one.encode() for one in values], key=keys, timeout=60)
        places = tuple(where) if partitions == 1 else ()  # where each is its get says
        seen.rows.append(
            Operation(
                "p", Kind.PUT, tuple(values), called, time.monotonic_ns(),
                positions=places, keys=tuple(keys),
            )
        )  # fmt: skip
        workers = [
            threading.Thread(target=seen.works, args=(nodes, f"w{at}", count)) for at in range(4)
        ]
        for one in workers:
            one.start()
        for _ in range(kills):
            kill_leader(nodes, jobs)
            time.sleep(1)
        for one in workers:
            one.join(60 + 10 * kills)
        assert not any(one.is_alive() for one in workers)
        assert jobs.stats(timeout=60).ready == 0
    history = History.of(seen.rows)
    assert check_in_order_by_key(history) == Valid("in_order_by_key")
    assert check_at_once(history, 4, by_key=False) == Valid("at_once")
    assert check_per_second(history, 10, by_key=True) == Valid("per_second")
    assert len(seen.done) == count
