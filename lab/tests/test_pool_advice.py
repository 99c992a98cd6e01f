"""Which settings a pool is advised: the objective, its bounds, and what is refused."""

from functools import cache

import pytest

pytest.importorskip("numpy")

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.pool.introductions import Acquaintance, PeerReport, PoolStatus
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.advice import GOAL, Judges, advise, outcome
from snowmelt_lab.pool.models import solve
from snowmelt_lab.pool.observed import observed
from snowmelt_lab.pool.options import Group, groups_of
from snowmelt_lab.pool.reasons import reasons
from snowmelt_lab.pool.situation import Setting, Situation, bytes_of

MODEL = Judges(cache(solve))
EVEN = Situation(producers=40, consumers=40, produce_rate=10, consume_rate=10, object_bytes=100_000)


def with_(**more):
    return msgspec.structs.replace(EVEN, **more)


def throughput(situation, setting):
    return outcome(situation, setting, solve(situation.options(setting))).throughput


@pytest.fixture(scope="module")
def even():
    return advise(EVEN, MODEL)


def test_the_goal_is_reached_and_no_cheaper_pair_reaches_it(even):
    setting = even.setting
    assert even.chosen.outcome.throughput >= GOAL * even.most
    for less in ({"buffers": setting.buffers - 1}, {"max_hops": setting.max_hops - 1}):
        cheaper = msgspec.structs.replace(setting, fan_out=0, **less)
        assert throughput(EVEN, cheaper) < 1.001 * GOAL * even.most, less


def test_all_alternatives_with_hops_reach_the_goal_too(even):
    pairs = [one for one in even.others if one.name.endswith("hops")]
    assert len(pairs) >= 3
    assert all(one.outcome.throughput >= 0.99 * GOAL * even.most for one in pairs)
    fewer = sorted((one.setting.max_hops, -one.setting.buffers) for one in pairs)
    assert [buffers for _, buffers in fewer] == sorted(buffers for _, buffers in fewer)


def test_throughput_and_wait_are_one(even):
    told = even.chosen.outcome
    cycle = 1 / EVEN.consume_rate + told.wait
    assert told.throughput == pytest.approx(EVEN.consumers / cycle, rel=1e-6)
    assert told.consumer_use == pytest.approx(1 / EVEN.consume_rate / cycle, rel=1e-6)


def test_large_objects_get_fewer_buffers(even):
    large = advise(with_(object_bytes=20_000_000), MODEL)
    assert large.setting.buffers < even.setting.buffers
    assert large.setting.max_hops > even.setting.max_hops


def test_memory_bounds_the_buffers():
    bounded = advise(with_(memory=250_000), MODEL)
    assert bounded.setting.buffers <= 2
    assert any("--memory allows 2 objects" in one for one in reasons(bounded))


def test_links_bound_the_fan_out():
    bounded = advise(with_(links=2), MODEL)
    assert (bounded.setting.fan_out, bounded.setting.max_hops) == (2, 2)
    assert bounded.chosen.outcome.consumer_links == 2


def test_every_producer_is_known_by_two_consumers():
    setting = advise(with_(producers=40, consumers=10, consume_rate=40), MODEL).setting
    assert setting.fan_out == 0 or setting.fan_out * 10 >= 2 * 40


def test_fast_producers_are_asked_more_often():
    uneven = advise(with_(groups=groups_of("4:9,36:1")), MODEL)
    assert uneven.setting.access is AccessKind.ADAPTIVE
    assert uneven.gain > 0.05
    assert 'access="adaptive"' in uneven.setting.line("frames")


@pytest.mark.parametrize("groups", ["20:1,20:1", "20:1,20:1.1"])
def test_producers_that_are_nearly_alike_are_asked_alike(groups):
    setting = advise(with_(groups=groups_of(groups)), MODEL).setting
    assert setting.access is AccessKind.UNIFORM


def test_when_producers_are_the_bottleneck_the_wait_is_what_it_is():
    busy = advise(with_(consumers=80), MODEL)
    least = 80 / 400 - 1 / 10
    assert busy.chosen.outcome.wait == pytest.approx(least, rel=0.1)
    assert busy.chosen.outcome.producer_use > 0.98
    assert reasons(busy)[0].startswith("producers are the bottleneck")


def test_what_is_on_loan_may_need_more_than_the_default_memory():
    many = with_(consumers=120, consume_rate=3, object_bytes=100_000_000, bandwidth=1e10)
    advice = advise(many, MODEL)
    assert advice.max_bytes > 1 << 30
    assert f"max_bytes={advice.max_bytes}" in advice.setting.line("frames", advice.max_bytes)
    assert any(one.startswith("max_bytes") for one in reasons(advice))


def test_a_crowded_network_is_warned_of():
    crowded = advise(with_(bandwidth=1e6), MODEL)
    assert any("warning: a producer's objects take" in one for one in reasons(crowded))


@pytest.mark.parametrize(
    ("bad", "option"),
    [
        ({"producers": 0}, "--producers"),
        ({"consumers": 10_001}, "--consumers"),
        ({"produce_rate": 0.0}, "--produce-rate"),
        ({"produce_rate": 1e5}, "--produce-rate"),
        ({"consume_rate": float("nan")}, "--consume-rate"),
        ({"transit": -1.0}, "--transit-ms"),
        ({"object_bytes": 1 << 40}, "--object-size"),
        ({"bandwidth": 0.0}, "--bandwidth"),
        ({"memory": 99_999}, "--memory"),
        ({"producers": 90, "links": 2}, "--links"),
        ({"groups": (Group(3, 1.0),)}, "--groups"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_is_refused_by_name(bad, option):
    with pytest.raises(BadOption, match=f"^{option} is .*; allowed: "):
        with_(**bad)


@pytest.mark.parametrize("text", ["", "much", "-1", "1 PB", "1e3", "MB"])
def test_a_size_that_is_none(text):
    with pytest.raises(BadOption, match="--memory is "):
        bytes_of("--memory", text)


# --- a pool that runs ----------------------------------------------------------------------------

HERE = Address("h", 1)
SLOW, FAST, EATER = (NodeId(f"c-{name}") for name in ("slow", "fast", "eater"))


def looked(made, used):
    told = tuple(Acquaintance(one, one, HERE, rate=3.0) for one in (SLOW, FAST))
    return PoolStatus("frames", told, (0, 0), (EATER,), made, used)


def milli(number):
    return Duration(seconds(number) // 1000)


def test_two_looks_tell_what_happens_now():
    before = looked(
        (PeerReport(age=seconds(5), put=40), PeerReport(age=seconds(1))),
        (PeerReport(age=seconds(9), gets=7, got=7, using=seconds(9)),),
    )
    after = looked(
        (
            PeerReport(age=seconds(15), buffers=4, put=49, put_bytes=900),
            PeerReport(age=seconds(11), buffers=4, put=100, put_bytes=10_000, blocked=seconds(5)),
        ),
        (
            PeerReport(
                age=seconds(19),
                max_hops=2,
                access="uniform",
                gets=107,
                got=107,
                probes=150,
                waited=seconds(2),
                using=seconds(17),
            ),
        ),
    )
    seen = observed(before, after)
    assert (seen.throughput, seen.wait, seen.probes) == (10.0, 0.02, 1.5)
    assert (seen.consume_rate, seen.consumer_use) == (12.5, 0.8)
    assert seen.producer_use == 0.75
    assert seen.produce_rate == (3 + 20) / 2, "few objects tell less than its own estimate"
    assert seen.groups == (Group(1, 20.0), Group(1, 3.0))
    assert seen.setting == Setting(buffers=4, max_hops=2)
    assert seen.object_bytes == 100


def test_who_came_or_was_silent_meanwhile_is_left_out():
    before = looked((PeerReport(age=milli(500), put=90),), ())
    before = msgspec.structs.replace(before, producers=before.producers[1:], stocks=(0,))
    after = looked((PeerReport(age=seconds(3), put=80), PeerReport(age=milli(500), put=90)), ())
    seen = observed(before, msgspec.structs.replace(after, consumers=()))
    assert (seen.throughput, seen.produce_rate, seen.consume_rate) == (0.0, 3.0, 0.0)


def test_an_older_node_tells_no_reports():
    bare = looked((), ())
    seen = observed(bare, bare)
    assert (seen.reports, seen.throughput, seen.produce_rate) == (False, 0.0, 3.0)
