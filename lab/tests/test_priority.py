"""Skeap and Skueue in rounds: machines and arrays say the same, and what is done is consistent."""

from collections import Counter

import msgspec
import numpy as np
import pytest

from commands import as_json, ran
from snowmelt.core.errors import BadOption
from snowmelt_lab.fitting import fitted
from snowmelt_lab.machines.overlay.family import Tell
from snowmelt_lab.machines.seap.steps import SHOWN_MAX, Assign, Begin, Release
from snowmelt_lab.machines.skeap.batches import Grant
from snowmelt_lab.overlay.arrays import Circle
from snowmelt_lab.priority import arrays, experiment, fairness, growth
from snowmelt_lab.priority.experiment import Experiment
from snowmelt_lab.priority.load import GET
from snowmelt_lab.priority.options import PriorityOptions, Protocol
from snowmelt_lab.priority.seap import In, Seap
from snowmelt_lab.priority.skeap import Skeap
from snowmelt_lab.priority.tree import Waves

SHAPES = [
    {"nodes": 2, "ops_per_node": 1, "waves": 3},
    {"nodes": 2, "ops_per_node": 9, "waves": 2, "priorities": 2},
    {"nodes": 3, "ops_per_node": 5, "waves": 3, "priorities": 3},
    {"nodes": 10, "ops_per_node": 4, "waves": 3},
    {"nodes": 10, "ops_per_node": 4, "waves": 3, "protocol": Protocol.SKUEUE},
    {"nodes": 24, "ops_per_node": 2, "waves": 2, "delete_share": 0.8},
    {"nodes": 24, "ops_per_node": 2, "waves": 2, "delete_share": 0.0},
    {"nodes": 24, "ops_per_node": 2, "waves": 2, "delete_share": 1.0},
    {"nodes": 60, "ops_per_node": 1, "waves": 2},
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_machines_and_arrays_measure_the_very_same(shape, seed):
    options = PriorityOptions(**shape, seed=seed, salt=f"s{seed}")
    by_machines, by_arrays = experiment.run(options), arrays.run(options)
    assert by_machines == by_arrays
    assert by_machines.consistent, by_machines.wrong
    assert by_machines.operations == options.operations


def test_each_operation_has_the_same_rounds_and_position_in_both():
    options = PriorityOptions(nodes=12, ops_per_node=6, waves=2, priorities=3)
    machines, other = Experiment(options), arrays.Arrays(options)
    for one in (machines, other):
        list(one.run())
    by_node = np.lexsort((other.one.turns, other.one.nodes))
    columns = (
        other.one.made, other.begun, other.granted, other.done,
        other.one.orders, other.one.rows, other.one.positions,
    )  # fmt: skip
    expected = [tuple(row) for row in np.stack(columns, axis=1)[by_node].tolist()]
    found = [
        (one.made, one.begun, one.granted, one.done, one.order, *(one.at or (-1, -1)))
        for one in machines.done
    ]
    assert found == expected
    assert machines.stored == other.stored.tolist()


def test_a_get_that_comes_before_its_put_waits_for_it():
    one = Experiment(PriorityOptions(nodes=24, ops_per_node=4, waves=3))
    put, got, waited = {}, {}, 0
    list(one.run())
    for each in one.done:
        if each.at is not None:
            (got if each.priority is None else put)[each.at] = each
    for at, get in got.items():
        assert get.element == put[at].element
        assert get.done >= put[at].done - 1  # the put's answer may need a round more than the get's
        waited += get.made < put[at].made
    assert waited


class Careless(Skeap):
    """Gets the least urgent first."""

    def granted(self, grant):
        runs = [msgspec.structs.replace(run, gets=run.gets[::-1]) for run in grant.runs]
        return super().granted(Grant(tuple(runs)))


def test_a_node_that_takes_its_gets_in_another_order_is_found_out():
    one = Experiment(PriorityOptions(nodes=6, ops_per_node=12, waves=2, priorities=3), Careless)
    list(one.run())
    told = one.measured()
    assert not told.consistent
    assert "while the smaller" in told.wrong


SEAP = [
    {"nodes": 2, "ops_per_node": 3, "waves": 3},
    {"nodes": 10, "ops_per_node": 4, "waves": 3},
    {"nodes": 10, "ops_per_node": 4, "waves": 2, "delete_share": 1.0},
    {"nodes": 10, "ops_per_node": 4, "waves": 2, "delete_share": 0.0},
    {"nodes": 8, "ops_per_node": 96, "waves": 3, "delete_share": 0.3},
]
"""The last has phases that take more than one message shows."""


@pytest.mark.parametrize("shape", SEAP, ids=str)
def test_seap_does_every_operation_in_phases_and_what_it_does_is_consistent(shape):
    one = Experiment(PriorityOptions(protocol=Protocol.SEAP, **shape))
    list(one.run())
    told = one.measured()
    assert told.consistent, told.wrong
    assert told.operations == one.options.operations
    puts = [each for each in one.done if each.priority is not None]
    got = [each for each in one.done if each.priority is None and each.element is not None]
    assert len(puts) - len(got) == sum(one.stored)
    if shape["nodes"] == 8:
        assert max(Counter(each.order for each in got).values()) > SHOWN_MAX


class Hoarder(Seap):
    """Keeps the least that it has out of every phase."""

    def granted(self, grant):
        if isinstance(grant.step, Begin):
            self.hidden = self.kept_here.free.row[:1]
            del self.kept_here.free.row[:1]
        wishes = super().granted(grant)
        if isinstance(grant.step, Assign | Release):
            for each in self.hidden:
                self.kept_here.free.add(each)
        return wishes


class Early(Seap):
    """Says that what it keeps came in before a phase that did not see it."""

    def visited(self, point, body):
        return [
            Tell(one.node, In(one.body.ticket, max(0, one.body.phase - 40)))
            for one in super().visited(point, body)
        ]


@pytest.mark.parametrize("make", [Hoarder, Early])
def test_a_node_that_does_not_keep_to_seap_is_found_out(make):
    options = PriorityOptions(protocol=Protocol.SEAP, nodes=6, ops_per_node=12, waves=3)
    one = Experiment(options, make)
    list(one.run())
    told = one.measured()
    assert not told.consistent
    assert "heap" in told.wrong


def test_messages_of_skeap_grow_with_the_rate_and_those_of_seap_have_a_bound():
    def bits(protocol, each):
        one = PriorityOptions(protocol=protocol, nodes=8, waves=1, ops_per_node=each)
        told = experiment.run(one)
        assert told.consistent, told.wrong
        return told.message_bits_max

    assert bits(Protocol.SKEAP, 64) > 3 * bits(Protocol.SKEAP, 16)
    assert bits(Protocol.SEAP, 256) < 1.3 * bits(Protocol.SEAP, 128) < 12_000


def test_seap_is_measured_at_sizes_by_the_machines():
    options = PriorityOptions(protocol=Protocol.SEAP, nodes=100, waves=1)
    first = next(growth.points(options, (1,), machines=100))
    assert (first.nodes, first.consistent, first.machines_agree) == (10, True, None)


def test_the_replay_finds_turned_orders_and_gets_that_are_not_the_most_urgent():
    one = arrays.Arrays(PriorityOptions(nodes=5, ops_per_node=6, waves=2)).one
    assert arrays.replayed(one) is None
    gets = np.flatnonzero((one.priorities == GET) & one.found)
    turned = msgspec.structs.replace(one, positions=one.positions.copy())
    turned.positions[gets[0]] += 1
    assert "not the most urgent" in arrays.replayed(turned)
    late = msgspec.structs.replace(one, orders=one.orders.max() - one.orders)
    assert "before its last one" in arrays.replayed(late)


@pytest.mark.parametrize("nodes", [2, 50, 1000])
def test_waves_take_twice_the_height_and_ranks_are_a_preorder(nodes):
    waves = Waves(Circle(nodes, "x"))
    root = np.array([0])
    assert waves.sent(3, root) - waves.sent(2, root) == 2 * waves.height
    assert sorted(waves.ranks) == list(range(3 * nodes))
    inner = np.arange(1, 3 * nodes)
    assert (waves.ranks[inner] > waves.ranks[waves.above[inner]]).all()
    last = waves.ranks + waves.sizes
    assert (last[inner] <= last[waves.above[inner]]).all()


def test_rounds_grow_as_the_logarithm_and_congestion_as_the_rate():
    one = PriorityOptions(nodes=316, waves=2)
    points = list(growth.points(one, (1, 8), machines=0))
    slow = [point for point in points if point.ops_per_node == 1]
    fit = fitted([point.nodes for point in slow], [point.rounds_mean for point in slow])
    assert max(map(abs, fit.residuals)) < 0.1 * slow[-1].rounds_mean
    busy = [point for point in points if point.ops_per_node == 8]
    for few, many in zip(slow, busy, strict=True):
        assert few.congestion_mean < many.congestion_mean < 9 * few.congestion_mean
    assert all(point.consistent for point in points)


def test_more_points_a_node_make_it_fairer_and_larger_blocks_less_fair():
    rows = {
        (row.points, row.block, row.replicas): row.deviation for row in fairness.compared(50, 1)
    }
    assert rows[fairness.EQUAL, 1, 1] < rows[64, 1, 1] < rows[16, 1, 1] < rows[1, 1, 1]
    assert rows[64, 1, 1] < rows[64, 16, 1] < rows[64, 512, 1]
    assert rows[fairness.PAPERS, 1, 3] < rows[fairness.PAPERS, 1, 1]


def test_the_command_tells_what_the_paper_counts():
    told = as_json(
        "priority", "--protocol", "skueue", "--nodes", "12", "--ops-per-node", "3", "--waves", "2",
        "--priorities", "4", "--delete-share", "0.4", "--seed", "7",
    )  # fmt: skip
    assert {
        *("rounds_mean", "rounds_p99", "congestion_max", "message_bits_max", "tree_height"),
        *("routing_hops_mean", "operations", "consistent"),
    } <= told.keys()
    assert told["operations"] == 12 * 3 * 2
    assert told["consistent"]
    assert told["priorities"] == 1
    parts = [told[f"rounds_{part}_mean"] for part in ("waiting", "climbing", "table")]
    assert sum(parts) == pytest.approx(told["rounds_mean"], abs=0.01)


def test_the_command_has_the_same_fields_for_seap():
    told, other = (
        as_json("priority", "--protocol", protocol, "--nodes", "6", "--waves", "1")
        for protocol in ("seap", "skeap")
    )
    assert told.keys() == other.keys()
    assert told["consistent"]
    assert told["priorities"] is None
    assert "any priority" in ran("priority", "--protocol", "seap", "--nodes", "4", "--waves", "1")


def test_the_command_says_it_in_words():
    said = ran("priority", "--nodes", "9", "--waves", "1", "--engine", "arrays")
    assert "consistent  yes" in said
    assert "congestion" in said


def test_the_command_draws(tmp_path):
    files = [tmp_path / f"{word}.png" for word in ("rounds", "traffic", "shares")]
    side = tmp_path / "rates.png"
    both = as_json("priority", "--nodes", "3", "--waves", "1", "--rates", str(side))["rates"]
    assert side.stat().st_size > 10_000
    assert {row["protocol"] for row in both} == {"skeap", "seap"}
    said = as_json(
        "priority", "--nodes", "100", "--waves", "1", "--machines", "10",
        "--growth", str(files[0]), "--traffic", str(files[1]), "--fairness", str(files[2]),
    )  # fmt: skip
    assert all(file.stat().st_size > 10_000 for file in files)
    assert [point["machines_agree"] for point in said["growth"]] == [True, None, None]
    assert len(said["fit"]["residuals"]) == 3
    assert {row["ops_per_node"] for row in said["traffic"]} == set(growth.RATES)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nodes", "1"], "--nodes is 1; allowed: 2 to 100000"),
        (["--protocol", "heap"], "--protocol is 'heap'; allowed: skeap, skueue, seap"),
        (["--protocol", "seap", "--nodes", "2001"], "--nodes is 2001; allowed: 2 to 2000"),
        (["--protocol", "seap", "--engine", "arrays"], "machines with --protocol seap"),
        (["--protocol", "seap", "--ops-per-node", "1025"], "allowed: 1 to 1024"),
        (["--nodes", "99999", "--waves", "1", "--rates", "x.png"], "30000 or fewer with --rates"),
        (["--ops-per-node", "65"], "--ops-per-node is 65; allowed: 1 to 64"),
        (["--waves", "0"], "--waves is 0; allowed: 1 to 1000"),
        (["--nodes", "100000", "--waves", "30"], "--waves is 30; allowed: 20 or fewer here"),
        (["--delete-share", "nan"], "--delete-share is nan; allowed: 0 to 1"),
        (["--priorities", "257"], "--priorities is 257; allowed: 1 to 256"),
        (["--seed", "-1"], "--seed is -1; allowed: 0 or more"),
        (["--engine", "machines", "--nodes", "9999"], "arrays with more than 2000 nodes"),
        (["--growth", "x.gif"], "a file ending in .png"),
        (["--nodes", "20", "--growth", "x.png"], "--nodes is 20; allowed: 100 or more"),
    ],
)
def test_what_can_t_be_had_is_refused_by_name(arguments, sentence):
    with pytest.raises(BadOption, match="allowed") as refused:
        ran("priority", *arguments)
    assert sentence in str(refused.value)
