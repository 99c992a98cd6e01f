"""Seap: queues of any priorities on the overlay, as programs hold them."""

import asyncio
import random
import tempfile
from functools import partial

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import BadOption, QueueExists

EARLY, LATE = -(1 << 63), (1 << 63) - 1


@pytest.fixture(scope="module")
def overlay(tmp_path_factory):
    with snowmelt.open(tmp_path_factory.mktemp("any")) as cluster:
        yield partial(cluster.priority, ordering="overlay")


def test_any_whole_number_is_one_and_a_thousand_go_in_one_call(overlay):
    jobs = overlay("ends")
    ends = [(LATE, b"last"), (0, b"middle"), (EARLY, b"first")]
    jobs.put_many([*ends, *[(3 * at % 1000 + 1, b"%d" % at) for at in range(1000)]])
    got = [item.priority for item in jobs.get_many(2_000, timeout=0)]
    assert got == sorted([EARLY, 0, LATE, *range(1, 1001)])
    assert jobs.stats().settings.kind == "any int"


def test_fractions_keep_their_order_and_the_largest_may_be_first(overlay):
    jobs = overlay("fractions", priorities=float, largest_first=True)
    for priority in (0.5, -3, float("inf"), -0.25, 1e300):
        jobs.put(b"x", priority=priority)
    got = [item.priority for item in jobs.get_many(timeout=0)]
    assert got == [float("inf"), 1e300, 0.5, -0.25, -3.0]


def test_what_comes_back_has_its_old_priority(overlay):
    jobs = overlay("back", priorities=int)
    jobs.put_many([(10**12, b"a"), (10**15, b"b")])
    first = jobs.get(timeout=0)
    assert first.body == b"a"
    first.nack()
    again = jobs.get(timeout=0)
    assert (again.body, again.priority, again.failures) == (b"a", 10**12, 1)


def test_what_a_queue_can_not_order_is_refused_before_it_is_put(overlay):
    jobs = overlay("refused", priorities=int)
    jobs.put(b"x", priority=1)
    for priority in (1.5, LATE + 1, float("nan"), "soon"):
        with pytest.raises(BadOption, match="priority is"):
            jobs.put(b"y", priority=priority)
    with pytest.raises(QueueExists, match="priorities=any int, asked any float"):
        overlay("refused", priorities=float).put(b"y")
    assert jobs.stats().ready == 1


def test_it_is_the_same_with_await():
    async def work(folder):
        async with snowmelt.aio.open(folder) as cluster:
            jobs = cluster.priority("jobs", ordering="overlay", priorities=float)
            await jobs.put(b"slow", priority=2.5)
            await jobs.put(b"fast", priority=-2.5)
            middle = await jobs.quantile(1)
            assert (middle.body, middle.priority) == (b"slow", 2.5)
            assert (await jobs.select(1)).body == b"fast"
            item = await jobs.get(timeout=0)
            assert (item.priority, item.body) == (-2.5, b"fast")
            await item.ack()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(folder))


def test_nodes_as_processes_keep_the_order_when_one_is_killed(tmp_path):
    dice = random.Random(5)
    keys = [dice.randrange(EARLY, LATE) for _ in range(400)]
    with LocalCluster(3, tmp_path, 0.5) as nodes:
        nodes.start()
        with snowmelt.connect(nodes.nodes[0].url) as cluster:
            jobs = cluster.priority("jobs", ordering="overlay", priorities=int, replicas=2)
            for at in range(0, len(keys), 40):
                jobs.put_many([(key, b"%d" % key) for key in keys[at : at + 40]])
            assert jobs.quantile(1).priority == max(keys)
            got = taken(jobs, 150)
            nodes.nodes[2].kill()
            got += taken(jobs, 250)
    assert got == sorted(keys)


def taken(jobs, count):
    """So many, acknowledged, as they come."""
    got = []
    while len(got) < count:
        items = jobs.get_many(min(30, count - len(got)), timeout=60)
        assert all(int(item.body) == item.priority for item in items)
        got += [item.priority for item in items]
        items.ack()
    return got


@pytest.mark.parametrize("largest_first", [False, True])
def test_what_was_put_by_turns_comes_in_one_order_whichever_way_it_is_read(overlay, largest_first):
    queue = overlay(f"turns{largest_first}", priorities=float, largest_first=largest_first)
    for first in range(3):
        queue.put_many(
            [(at / 2, b"%d" % at) for at in range(first, 24, 3)], headers={"first": str(first)}
        )
    order = sorted(range(24), reverse=largest_first)
    with queue.get_many(9) as some:
        assert [int(item.body) for item in some] == order[:9]
        assert [item.priority for item in some] == [at / 2 for at in order[:9]]
        assert [item.headers["first"] for item in some] == [str(at % 3) for at in order[:9]]
        assert [int(body) for body in some.batch] == order[:9]
        places = [at for one in some.positions for at in one]
        assert places == [item.position for item in some]
    loop = queue.consume(timeout=0)
    assert [int(item.body) for item in loop] == order[9:]
