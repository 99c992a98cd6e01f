"""The overlay in arrays agrees with the machines' own, and the command tells and draws it."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from commands import as_json, ran
from snowmelt.core.errors import BadOption
from snowmelt_lab.machines.overlay import CIRCLE, DeBruijnTree, Kind, Ring
from snowmelt_lab.overlay.arrays import Circle, name
from snowmelt_lab.overlay.changes import measured as changed
from snowmelt_lab.overlay.picture import walked


@pytest.mark.parametrize("nodes", [1, 2, 3, 10, 100, 1000])
def test_arrays_agree_with_the_ring_the_tree_and_the_routes(nodes):
    circle, ring = Circle(nodes, "x"), Ring([name(number) for number in range(nodes)], "x")
    owners = [name(number) for number in circle.owners]
    assert [(one.label, one.kind, one.node) for one in ring.virtuals] == list(
        zip(circle.labels.tolist(), circle.kinds.tolist(), owners, strict=True)
    )
    tree, above = DeBruijnTree(ring), circle.parents()
    parents = [tree.parent(one.place) for one in ring.virtuals]
    assert parents[0] is None
    assert [ring.virtuals[at].place for at in above[1:]] == parents[1:]
    assert circle.depths().max() == tree.height
    chance = Random(nodes)
    keys = [0, CIRCLE - 1, *(chance.randrange(CIRCLE) for _ in range(100))]
    starts = [chance.randrange(nodes) for _ in keys]
    counted = np.zeros(len(keys), np.int64)
    ends, hops, away = circle.routes(
        np.array(starts),
        np.array(keys, np.uint64),
        lambda moved, _: np.add.at(counted, moved, 1),
    )
    assert (counted == away).all()
    for start, key, end, length, far in zip(starts, keys, ends, hops, away, strict=True):
        met = walked(ring, ring.virtual(name(start), Kind.MIDDLE), key)
        assert met[-1] == ring.virtuals[end] == ring.predecessor(key)
        assert far == sum(one.node != other.node for one, other in pairwise(met))
        assert far <= length <= len(met)


@pytest.mark.parametrize("nodes", [10, 1000])
def test_shares_of_the_circle_add_up_and_follow_the_keys(nodes):
    circle, ring = Circle(nodes, "x"), Ring([name(number) for number in range(nodes)], "x")
    shares = circle.shares()
    assert shares.sum() == pytest.approx(nodes)
    most = name(int(shares.argmax()))
    arcs = [
        (ring.succ(one).label - one.label) % CIRCLE for one in ring.virtuals if one.node == most
    ]
    assert shares.max() == pytest.approx(nodes * sum(arcs) / CIRCLE)


def test_joins_and_leaves_take_some_heights_of_the_tree():
    few, many = changed(8, "x", 3, 1), changed(64, "x", 3, 1)
    for one in (few, many):
        assert one.served.most < one.join_restored.mean
        assert one.left.mean < one.leave_restored.mean
    assert many.join_restored.mean < 4 * few.join_restored.mean


def test_the_command_draws_and_tells(tmp_path):
    ring, growth = tmp_path / "ring.svg", tmp_path / "growth.png"
    told = as_json(
        "overlay", "--nodes", "50", "--routes", "200", "--changes", "1",
        "--out", str(ring), "--growth", str(growth),
    )  # fmt: skip
    assert ring.read_text().startswith("<?xml")
    assert growth.stat().st_size > 10_000
    assert told["nodes"] == 50
    assert told["tree_height"] > told["tree_height_hops"] > told["flat_tree_height"]["16"]
    assert told["routing_hops_mean"] < told["routing_hops_p99"] <= told["routing_hops_max"]
    assert [point["nodes"] for point in told["growth"]] == [10, 22, 46]
    assert told["changes"]["crowd"] == 5


def test_the_command_says_it_in_words():
    assert "hops between nodes" in ran("overlay", "--nodes", "8", "--routes", "10")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nodes", "0"], "--nodes is 0; allowed: 1 to 100000"),
        (["--nodes", "2000", "--changes", "1"], "0 with more than 1000 nodes"),
        (["--nodes", "500", "--out", "x.svg"], "a picture of 400 nodes at most"),
        (["--nodes", "10", "--growth", "x.svg"], "--nodes of 50 or more"),
        (["--out", "x.gif"], "a file ending in"),
        (["--salt", "a b"], "--salt is 'a b'"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(arguments, sentence):
    with pytest.raises(BadOption, match=sentence):
        ran("overlay", *arguments)
