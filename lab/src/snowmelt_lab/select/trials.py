"""Many selections against sorting: of any kind, and both plans side by side."""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean
from typing import Final

import msgspec
import numpy as np

from snowmelt_lab.select import arrays
from snowmelt_lab.select.experiment import Measured
from snowmelt_lab.select.options import Distribution, Mode, SelectOptions, Shares

NODES_MOST: Final = 1_000
"""Of a case drawn by chance; as small ones are as likely as large ones, most have few."""
ELEMENTS_MOST: Final = 50_000
SIZES: Final = (10, 32, 100, 316, 1_000, 3_162, 10_000)
ELEMENTS_EACH: Final = 100
TRIALS: Final = 10


class Cases(msgspec.Struct, frozen=True, kw_only=True):
    cases: int
    exact: int
    by_distribution: dict[str, int]
    iterations_max: int
    misses: int
    fewer_elements_than_nodes: int
    first_wrong: SelectOptions | None


def drawn(seed: int, cases: int) -> Iterator[SelectOptions]:
    """Cases of every kind: few and many nodes and elements, ranks at both ends."""
    chance = np.random.default_rng(seed)
    for case in range(cases):
        most = np.log10([NODES_MOST, ELEMENTS_MOST])
        nodes, elements = (int(10 ** chance.uniform(0, end)) for end in most)
        within = int(chance.integers(1, elements + 1))
        k = int(chance.choice([1, min(2, elements), max(1, elements - 1), elements, within]))
        yield SelectOptions(
            nodes=nodes,
            elements=elements,
            k=k,
            distribution=list(Distribution)[case % len(Distribution)],
            shares=list(Shares)[case // len(Distribution) % len(Shares)],
            salt=f"case{case}",
            seed=seed + case,
        )


def tried(seed: int, cases: int) -> Iterator[tuple[SelectOptions, Measured]]:
    """Each case and what was found; `exact` was judged by sorting."""
    for options in drawn(seed, cases):
        yield options, arrays.run(options)


def counted(tried: list[tuple[SelectOptions, Measured]]) -> Cases:
    exact = Counter(one.distribution.value for one, found in tried if found.exact)
    return Cases(
        cases=len(tried),
        exact=sum(exact.values()),
        by_distribution=dict(sorted(exact.items())),
        iterations_max=max((found.iterations for _, found in tried), default=0),
        misses=sum(found.misses for _, found in tried),
        fewer_elements_than_nodes=sum(one.elements < one.nodes for one, _ in tried),
        first_wrong=next((one for one, found in tried if not found.exact), None),
    )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One size, one plan, one kind of shares: how its trials ended."""

    nodes: int
    mode: Mode
    shares: Shares
    trials: int
    exact: int
    early: int
    """One place too early for each sample at most, so by the printed slip of one alone."""
    wrong: int
    lost: int
    endless: int
    candidates_after_phase1: float
    """Of all elements, the share."""
    rounds_mean: float


def rows_of(options: SelectOptions) -> list[SelectOptions]:
    """What is compared: the rank in the middle, up to the options' number of nodes."""
    return [
        msgspec.structs.replace(
            options, nodes=nodes, elements=ELEMENTS_EACH * nodes, k=None, mode=mode, shares=shares
        )
        for nodes in SIZES
        if nodes <= options.nodes
        for shares in Shares
        for mode in Mode
    ]


def compared(options: SelectOptions) -> Iterator[Row]:
    for one in rows_of(options):
        seeds = range(one.seed, one.seed + TRIALS)
        each = [
            arrays.run(msgspec.structs.replace(one, seed=seed, salt=f"{one.salt}{seed}"))
            for seed in seeds
        ]
        yield _row(one, each)


def _row(options: SelectOptions, each: list[Measured]) -> Row:
    ends = Counter(_end(options, one) for one in each)
    return Row(
        nodes=options.nodes,
        mode=options.mode,
        shares=options.shares,
        trials=len(each),
        exact=ends["exact"],
        early=ends["early"],
        wrong=ends["wrong"],
        lost=ends["the rank has left the candidates"],
        endless=ends["nothing is removed any more"],
        candidates_after_phase1=round(
            fmean(one.candidates_after_phase1 for one in each) / options.elements, 4
        ),
        rounds_mean=fmean(one.rounds for one in each),
    )


def _end(options: SelectOptions, found: Measured) -> str:
    if found.exact:
        return "exact"
    if found.rank is None:
        return found.end
    return "early" if 0 < options.rank - found.rank <= found.iterations else "wrong"
