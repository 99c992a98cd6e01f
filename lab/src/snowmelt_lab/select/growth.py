"""What a selection costs against the number of nodes: measured for each size."""

from collections.abc import Iterator
from statistics import fmean

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.engine import MACHINES_MAX
from snowmelt_lab.fitting import SALTS, sizes_up_to
from snowmelt_lab.select import arrays, experiment
from snowmelt_lab.select.options import ELEMENTS_MAX, SelectOptions


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One size, in the mean over some overlays; of the greatest what is a greatest."""

    nodes: int
    elements: int
    rounds_mean: float
    rounds_max: int
    tree_height_hops: float
    waves_mean: float
    iterations_mean: float
    iterations_max: int
    iterations_phase1_mean: float
    misses: int
    congestion_mean: float
    congestion_max: int
    message_bits_mean: float
    message_bits_max: int
    exact: bool
    machines_agree: bool | None
    """Whether the machines gave the very same for the first overlay, if they were asked."""


def sizes(options: SelectOptions) -> list[int]:
    """Up to that of the options, where all of them have elements."""
    found = sizes_up_to(options.nodes)
    each = options.elements // options.nodes
    if each < 1:
        least = f"{options.nodes} or more, for a curve: as many a node for every size"
        raise BadOption("--elements", options.elements, least)
    return found


def points(options: SelectOptions, machines: int) -> Iterator[Point]:
    """Each size with as many elements a node; the rank in the middle. Few sizes ask machines."""
    each = options.elements // options.nodes
    for nodes in sizes(options):
        many = min(ELEMENTS_MAX, nodes * each)
        one = msgspec.structs.replace(options, nodes=nodes, elements=many, k=None)
        yield _point(one, machines=nodes <= min(machines, MACHINES_MAX))


def _point(options: SelectOptions, *, machines: bool) -> Point:
    made = [
        msgspec.structs.replace(options, salt=f"{options.salt}{number}", seed=options.seed + number)
        for number in range(SALTS)
    ]
    ran = [arrays.ran(one) for one in made]
    each = [one.measured() for one in ran]
    agree = experiment.run(made[0]) == each[0] if machines else None
    return Point(
        nodes=options.nodes,
        elements=options.elements,
        rounds_mean=fmean(one.rounds for one in each),
        rounds_max=max(one.rounds for one in each),
        tree_height_hops=fmean(int(one.tree.depths.max()) for one in ran),
        waves_mean=fmean(one.waves for one in each),
        iterations_mean=fmean(one.iterations for one in each),
        iterations_max=max(one.iterations for one in each),
        iterations_phase1_mean=fmean(one.iterations_phase1 for one in each),
        misses=sum(one.misses for one in each),
        congestion_mean=fmean(one.congestion_max for one in each),
        congestion_max=max(one.congestion_max for one in each),
        message_bits_mean=fmean(one.message_bits_max for one in each),
        message_bits_max=max(one.message_bits_max for one in each),
        exact=all(one.exact for one in each),
        machines_agree=agree,
    )
