"""Queues with any priorities, as programs hold them."""

import asyncio
import random
import tempfile
from itertools import islice

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster
from snowmelt.client.leases.delivered import priority_of
from snowmelt.client.priority.steps import ranked_parcels
from snowmelt.client.queue.bodies import CALL_BYTES
from snowmelt.client.queue.group_steps import BEGINNING
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption, NoSuchQueue, QueueExists
from snowmelt.core.interval import Interval
from snowmelt.core.keys import unpacked
from snowmelt.protocols.queue.api.labels import Labels

EARLY, LATE = -(1 << 63), (1 << 63) - 1

CHANCE = random.Random(7)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with snowmelt.open(tmp_path_factory.mktemp("any")) as cluster:
        yield cluster


@pytest.mark.parametrize("priorities", [3, int, float])
def test_what_is_shown_first_has_its_priority_though_settings_are_said(tmp_path, priorities):
    options = {"priorities": priorities, "largest_first": True, "lease": 5}
    with snowmelt.open(tmp_path) as cluster:
        cluster.priority("jobs", **options).put_many([(0, b"least"), (2, b"most")])
    for look in (
        lambda jobs: [(one.priority, one.body) for one in jobs.peek(9)],
        lambda jobs: [(one.priority, one.body) for one in (jobs.select(1), jobs.select(2))],
    ):
        with snowmelt.open(tmp_path) as cluster:  # it asks for nothing else before
            assert look(cluster.priority("jobs", **options)) == [(2, b"most"), (0, b"least")]


def test_a_queue_of_which_nothing_is_said_takes_any_whole_number(cluster):
    jobs = cluster.priority("ends")
    jobs.put(b"late", priority=LATE)
    jobs.put(b"early", priority=EARLY)
    where = jobs.put_many([(7, b"seven"), (-1, b"less"), (7, b"seven too")])
    assert where == (Interval(2, 5),), "positions count together"
    got = [(item.priority, item.body) for item in jobs.get_many(timeout=0)]
    assert got == [
        (EARLY, b"early"),
        (-1, b"less"),
        (7, b"seven"),
        (7, b"seven too"),
        (LATE, b"late"),
    ]


def test_a_queue_of_which_nothing_is_said_is_made_with_priorities(cluster):
    for _ in range(2):
        cluster.priority("made").create()
    assert cluster.priority("made").put(b"late", priority=LATE) == 0
    assert cluster.queues(kind="priority").count("made") == 1
    cluster.priority("two", priorities=2).create()
    cluster.priority("two").create()  # it is taken as it is
    assert cluster.priority("two").stats().settings.priorities == 2


def test_a_thousand_priorities_go_in_one_call(cluster):
    jobs = cluster.priority("many", priorities=int)
    where = jobs.put_many([(3 * at % 1000, b"%d" % at) for at in range(1000)])
    assert where == (Interval(0, 1000),)
    assert [item.priority for item in jobs.get_many(1000, timeout=0)] == list(range(1000))


@pytest.mark.parametrize("few", [3, 10**9])
def test_what_is_too_much_for_one_call_goes_in_calls_of_the_first_the_next_and_so_on(few):
    dice = random.Random(2)
    pairs = [(dice.randrange(few), bytes([at % 256]) * 8_000) for at in range(2_500)]
    given = iter(pairs)
    calls = list(ranked_parcels(pairs, None, Ranks("q")))
    for call in calls:
        keys = unpacked(call.keys)
        went = list(zip(keys, map(bytes, Batch(call.offsets, call.blob)), strict=True))
        came = list(islice(given, len(went)))
        assert went == sorted(came, key=lambda pair: pair[0]), "others than the next ones"
        assert went == [came[at] for at in call.order]
        assert sum(len(body) for _, body in went) <= CALL_BYTES
    assert not list(given)
    assert len(calls) <= 4


def test_fractions_keep_their_order_and_the_largest_may_be_first(cluster):
    jobs = cluster.priority("fractions", priorities=float, largest_first=True)
    for priority in (0.5, -3, float("inf"), -0.25, 1e300):
        jobs.put(b"x", priority=priority)
    got = [item.priority for item in jobs.get_many(timeout=0)]
    assert got == [float("inf"), 1e300, 0.5, -0.25, -3.0]


def test_what_comes_back_has_its_old_priority(cluster):
    jobs = cluster.priority("back", priorities=int)
    jobs.put_many([(10**12, b"a"), (10**15, b"b")])
    first = jobs.get(timeout=0)
    assert first.body == b"a"
    first.nack()
    again = jobs.get(timeout=0)
    assert (again.body, again.priority, again.failures) == (b"a", 10**12, 1)


@pytest.mark.parametrize("largest_first", [False, True])
def test_what_one_get_brings_from_many_puts_is_in_order_and_each_is_an_item_of_its_own(
    cluster, largest_first
):
    jobs = cluster.priority(
        f"gathered-{largest_first}", priorities=int, largest_first=largest_first
    )
    dice = random.Random(5)
    keys = [dice.randrange(-40, 40) for _ in range(120)]
    for at in range(0, 120, 6):
        pairs = [(key, b"%d" % number) for number, key in enumerate(keys[at : at + 6], start=at)]
        jobs.put_many(pairs, headers={"n": "1"})
    order = sorted(range(120), key=lambda at: (-keys[at] if largest_first else keys[at], at))
    items = jobs.get_many(100, timeout=0)
    assert [int(item.body) for item in items] == order[:100]
    assert [int(body) for body in map(bytes, items.batch)] == order[:100]
    assert [item.priority for item in items] == [keys[at] for at in order[:100]]
    assert all(item.headers == {"n": "1"} and item.put_at is not None for item in items)
    assert sum(one.size for one in items.positions) == 100
    first, second, *rest = items
    first.nack(reason="no")
    second.release()
    for item in rest:
        item.ack()
    again = jobs.get_many(100, timeout=0)
    assert [int(item.body) for item in again] == [*order[:2], *order[100:]]
    assert [item.failures for item in again][:3] == [1, 0, 0]


def test_a_rank_and_a_share_are_selected_and_stay(cluster):
    jobs = cluster.priority("selected", priorities=int)
    with pytest.raises(NoSuchQueue):
        jobs.quantile(0.5)
    jobs.put(b"x")
    assert jobs.purge() == 1
    assert jobs.quantile(0.5) is None
    jobs.put_many([(at * at, b"%d" % at) for at in range(-50, 51)])
    assert [jobs.select(rank).priority for rank in (1, 2, 3, 101)] == [0, 1, 1, 2500]
    assert jobs.select(102) is None
    assert jobs.quantile(0.5).priority == 25 * 25
    assert (jobs.quantile(0).priority, jobs.quantile(1).priority) == (0, 2500)
    assert jobs.stats().ready == 101
    with pytest.raises(BadOption, match="share is 2"):
        jobs.quantile(2)


@pytest.mark.parametrize("options", [{}, {"priorities": float}, {"largest_first": True}])
def test_the_last_of_a_priority_is_shown_and_stays(cluster, options):
    name = f"latest-{len(options)}-{'largest_first' in options}"
    table, model = cluster.priority(name, **options), {}
    with pytest.raises(NoSuchQueue):
        table.last(1)
    for turn in range(40):
        some = [(CHANCE.randrange(-20, 20), b"%d %d" % (turn, at)) for at in range(turn * 3)]
        table.put_many(some)
        model |= dict(some)
        if turn % 5 == 4:
            taken = table.get_many(turn * 2)
            taken.release()
    assert {key: table.last(key).body for key in model} == model
    assert table.last(3).priority == 3
    assert table.last(1000) is None
    first = table.get_many(1000)
    left = {one.priority for one in first} - {one.priority for one in table.peek(9)}
    assert all(table.last(key) is None for key in left)
    first.release()
    assert {key: table.last(key).body for key in model} == model


def test_numbered_priorities_have_a_last_too(cluster):
    jobs = cluster.priority("numbered-last", priorities=3, largest_first=True)
    jobs.put_many([(at % 2, b"%d" % at) for at in range(9)])
    assert (jobs.last(0).body, jobs.last(1).body, jobs.last(2)) == (b"8", b"7", None)
    with pytest.raises(BadOption, match="priority is 3"):
        jobs.last(3)


def test_numbered_priorities_have_ranks_too(cluster):
    jobs = cluster.priority("numbered", priorities=3)
    jobs.put_many([(at % 3, b"%d" % at) for at in range(9)])
    assert [jobs.select(rank).body for rank in (1, 3, 9)] == [b"0", b"6", b"8"]
    assert (jobs.quantile(0.5).body, jobs.quantile(0.5).priority) == (b"4", 1)
    assert jobs.select(10) is None


def test_what_a_queue_can_not_order_is_refused_before_it_is_put(cluster):
    jobs = cluster.priority("refused", priorities=int)
    jobs.put(b"x", priority=1)
    for priority in (1.5, LATE + 1, float("nan"), "soon"):
        with pytest.raises(BadOption, match="priority is"):
            jobs.put(b"y", priority=priority)
    with pytest.raises(QueueExists, match="priorities=any int, asked any float"):
        cluster.priority("refused", priorities=float).put(b"y")
    assert jobs.stats().ready == 1


def test_a_queue_of_which_something_is_said_is_as_it_was_said(cluster):
    cluster.priority("own", priorities=3, lease=60).put(b"x", priority=2)
    cluster.priority("own").put(b"x", priority=1)
    cluster.priority("own", priorities=3, lease=60).put(b"x", priority=1)
    with pytest.raises(QueueExists, match="with other settings: lease=60, asked 5; "):
        cluster.priority("own", priorities=3, lease=5).put(b"x")
    with pytest.raises(QueueExists, match="priorities=3, asked any int"):
        cluster.priority("own", lease=60).put(b"x")
    with pytest.raises(BadOption, match="allowed: 0 to 2 in own"):
        cluster.priority("own").put(b"x", priority=3)
    largest = cluster.priority("other", largest_first=True)
    largest.put_many([(-7, b"x"), (2**40, b"x")])
    assert largest.select(1).priority == 2**40
    assert cluster.priority("own").stats().ready_of == (0, 2, 1)


def test_a_put_that_is_refused_makes_no_queue(cluster):
    with pytest.raises(BadOption, match="make it with priorities=float"):
        cluster.priority("unmade").put(b"x", priority=2.5)
    with pytest.raises(BadOption, match="allowed: 0 to 2 in unmade"):
        cluster.priority("unmade", priorities=3).put_many([(0, b"x"), (7, b"x")])
    with pytest.raises(BadOption, match="priority is 1; allowed: 0, since unmade is"):
        cluster.priority("unmade", priorities=1).put(b"x", priority=1)
    assert "unmade" not in cluster.queues()
    cluster.priority("unmade", priorities=float).put(b"x", priority=2.5)
    cluster.priority("unmade").put(b"y", priority=-0.5)
    assert [one.priority for one in cluster.priority("unmade").peek()] == [-0.5, 2.5]


def read(jobs, group, start, end):
    """The priorities of what a group was given."""
    reading = jobs.read(group.locate(start, end).spans)
    assert not reading.unread
    places = [(part, at) for part in reading.parts for at in range(part.start, stop_of(part))]
    return [priority_of(part, at) for part, at in places]


def stop_of(part):
    return part.start + part.count


@pytest.mark.parametrize("largest_first", [False, True])
@pytest.mark.parametrize("priorities", [256, int, float])
def test_a_group_is_given_priorities_in_their_order(cluster, largest_first, priorities):
    name = f"given-{priorities}-{largest_first}".replace("<class '", "").replace("'>", "")
    jobs = cluster.priority(name, priorities=priorities, largest_first=largest_first)
    dice = random.Random(3)
    edges = (0, 256) if priorities == 256 else (EARLY, LATE)
    keys = [dice.randrange(*edges) for _ in range(2_000)]
    if priorities is float:
        keys = [key / 2 for key in keys]
    jobs.put_many([(key, b"%d" % key) for key in keys])
    group = jobs.group("readers")
    first = group.advance(items_max=1_500).end
    got = read(jobs, group, BEGINNING, first)
    assert len(got) == 1_500
    second = group.advance(first).end
    got += read(jobs, group, first, second)
    assert got == sorted(keys, reverse=largest_first)
    assert group.advance(second).end == second
    assert (jobs.stats().ready, jobs.stats().assigned) == (0, 0)


@pytest.mark.parametrize("largest_first", [False, True])
@pytest.mark.parametrize("priorities", [256, int, float])
def test_a_group_is_given_what_there_was_whatever_is_more_urgent_since(
    cluster, largest_first, priorities
):
    name = f"pinned-{priorities}-{largest_first}".replace("<class '", "").replace("'>", "")
    jobs = cluster.priority(name, priorities=priorities, largest_first=largest_first)
    jobs.put_many([(at, b"old") for at in range(100, 110)])
    bounds = jobs.stats().bounds
    jobs.put_many([(at, b"new") for at in range(200)] * 10)
    group = jobs.group("readers")
    end, got = BEGINNING, []
    while (after := group.advance(end, items_max=4, below=bounds).end) != end:
        got, end = got + read(jobs, group, end, after), after
    assert got == sorted(range(100, 110), reverse=largest_first)
    assert group.advance(end, below=[0]).end == end
    assert group.advance(end).end != end


def test_staged_items_and_groups_take_any_priorities(cluster):
    jobs = cluster.priority("staged", priorities=int)
    labels = Labels(keys=(b"l", b"f"), headers=({"who": "l"}, {"who": "f"}))
    receipts = jobs.stage([(10**9, b"later"), (-(10**9), b"first")], headers=labels)
    assert jobs.stats().ready == 0
    assert jobs.publish(receipts) == (Interval(0, 2),)
    group = jobs.group("readers")
    given = group.advance()
    assert read(jobs, group, BEGINNING, given.end) == [-(10**9), 10**9]
    group.release()
    found = [(item.body, item.key, item.headers) for item in jobs.get_many(timeout=0)]
    assert found == [(b"first", b"f", {"who": "f"}), (b"later", b"l", {"who": "l"})]


def test_it_is_the_same_with_await():
    async def work(folder):
        async with snowmelt.aio.open(folder) as cluster:
            jobs = cluster.priority("jobs", priorities=float)
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
            jobs = cluster.priority("jobs", priorities=int, replicas=2)
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
def test_what_was_put_by_turns_comes_in_one_order_whichever_way_it_is_read(cluster, largest_first):
    queue = cluster.priority(f"turns{largest_first}", priorities=float, largest_first=largest_first)
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
