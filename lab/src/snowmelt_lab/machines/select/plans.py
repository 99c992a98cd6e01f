"""How a selection goes: the repaired plan, and the paper's own (rules 12 to 22)."""

from math import ceil, floor, log, log2, sqrt
from typing import Final, Protocol

import msgspec

from snowmelt_lab.machines.select.elements import Window, after
from snowmelt_lab.machines.select.steps import SURE, Bounds, Drawn, EqualRanks, Ranks

SAMPLE_MIN: Final = 32
SAMPLE_LEAST: Final = 8
"""With fewer the margins of rule 18 could leave nothing to remove: it would never end."""
SAMPLE_PER_ROOT: Final = 3
"""Of a repaired sample, times the root of the number of nodes (rule 18)."""
DEVIATIONS: Final = 1.25
WORTH: Final = 64
"""Phase 1 pays with more candidates a node (rule 17)."""
SILENT: Final = 4
"""Who has less than one in so many of the mean keeps silent."""
SAMPLES_MAX: Final = 1_000
SAMPLES_PRINTED_MAX: Final = 64
"""After so many the printed plan is stopped (rule 21)."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What the anchor knows. Frozen: each answer makes another one."""

    nodes: int
    elements: int
    k: int
    """Of the element looked for among the candidates."""
    count: int
    """How many candidates there are."""
    candidates: Window = Window()
    rankings: int = 0
    """Iterations of phase 1 so far."""
    before_ranking: int = 0
    """How many candidates there were before the last of them."""
    samples: int = 0
    """Iterations of phase 2 so far."""
    misses: int = 0
    """Windows that the k-th smallest was not in (rule 14)."""
    left: bool = False
    """Whether the window that is counted begins with a c_l."""
    after_phase1: int | None = None


class Plan(Protocol):
    """What is decided at the anchor alone."""

    def ranks(self, at: Progress) -> Ranks | EqualRanks | None:
        """The next iteration of phase 1; None when it is over."""
        ...

    def chance(self, at: Progress) -> int:
        """With which a candidate is drawn; `SURE` in phase 3."""
        ...

    def fits(self, at: Progress, drawn: int) -> bool:
        """Whether what was drawn is to be sorted."""
        ...

    def places(self, at: Progress, drawn: int) -> tuple[int, int]:
        """Of c_l and c_r in the sample; 0 where there is none."""
        ...

    def guess(self, at: Progress, drawn: int, places: tuple[int, int]) -> int:
        """The chance for the next draw from between these places; 0 when it is to be counted."""
        ...

    def narrowed(self, at: Progress, cut: Window, told: Drawn) -> Progress:
        """What is known once a window has been counted."""
        ...

    def hopeless(self, at: Progress) -> bool:
        """Whether it would go on without end."""
        ...


class RepairedPlan:
    """Always exact (rules 14 and 17 to 19).

    A smaller sample makes more iterations of fewer messages.
    """

    def __init__(self, sample_min: int = SAMPLE_MIN) -> None:
        if sample_min < SAMPLE_LEAST:
            raise ValueError(f"a sample of {sample_min}: at least {SAMPLE_LEAST}")
        self.sample_min: Final = sample_min

    def ranks(self, at: Progress) -> Ranks | None:
        """While there are many a node, and the last iteration halved them."""
        halved = not at.rankings or 2 * at.count <= at.before_ranking
        if at.count <= WORTH * at.nodes or not halved:
            return None
        return Ranks(at.candidates, at.k, at.count, at.count // (SILENT * at.nodes))

    def sample(self, at: Progress) -> int:
        """How many to sort at once.

        >>> [RepairedPlan().sample(Progress(nodes=n, elements=9, k=1, count=9)) for n in (1, 1000)]
        [32, 95]
        """
        return max(self.sample_min, ceil(SAMPLE_PER_ROOT * sqrt(at.nodes)))

    def chance(self, at: Progress) -> int:
        """So that the sample is as large as it should be."""
        return self._chance(at, at.count)

    def _chance(self, at: Progress, count: float) -> int:
        sample = self.sample(at)
        return SURE if count <= sample else max(1, floor(SURE * sample / count))

    def fits(self, at: Progress, drawn: int) -> bool:
        """Neither far too many to sort nor far too few to say anything (rule 19)."""
        if drawn == at.count:
            return drawn <= 2 * self.sample(at)
        if at.count <= self.sample(at):
            return False  # all of them can be sorted at once
        return self.sample(at) // 4 <= drawn <= 2 * self.sample(at) and any(self.places(at, drawn))

    def places(self, at: Progress, drawn: int) -> tuple[int, int]:
        """More than a standard deviation from where the k-th smallest should be (rule 18).

        >>> RepairedPlan().places(Progress(nodes=9, elements=999, k=500, count=1000), 100)
        (42, 58)
        """
        share = at.k / at.count
        margin = DEVIATIONS * sqrt(drawn * share * (1 - share)) + 1
        low, high = floor(drawn * share - margin), ceil(drawn * share + margin)
        return (max(0, low), high if high <= drawn else 0)

    def guess(self, at: Progress, drawn: int, places: tuple[int, int]) -> int:
        """By how many candidates there should be for each place (rule 19)."""
        low, high = places
        apart = (high or drawn + 1) - low
        return self._chance(at, at.count * apart / (drawn + 1))

    def narrowed(self, at: Progress, cut: Window, told: Drawn) -> Progress:
        """Verified (rule 14)."""
        before, behind = told.before, told.behind
        if at.k <= before:
            window = at.candidates.before(cut)
            return _replace(at, candidates=window, count=before, misses=at.misses + 1)
        inside = at.count - before - behind
        if at.k > before + inside:
            k, window = at.k - before - inside, at.candidates.behind(cut)
            return _replace(at, candidates=window, k=k, count=behind, misses=at.misses + 1)
        return _replace(at, candidates=cut, k=at.k - before, count=inside)

    def hopeless(self, at: Progress) -> bool:
        """Each sample narrows unless chance is against it, which it is not so often."""
        return at.samples >= SAMPLES_MAX


class PrintedPlan:
    """As printed (rules 20 to 22)."""

    def ranks(self, at: Progress) -> EqualRanks | None:
        """Log q + 1 times, q being log m to the base n."""
        if at.rankings >= self._rankings(at):
            return None
        return EqualRanks(at.candidates, at.k // at.nodes, -(-at.k // at.nodes))

    def _rankings(self, at: Progress) -> int:
        if at.nodes == 1:
            return 1
        q = log(max(2, at.elements)) / log(at.nodes)
        return max(1, ceil(log2(q)) + 1)

    def chance(self, at: Progress) -> int:
        """The root of n among all candidates; all of them when there are no more."""
        root = sqrt(at.nodes)
        return SURE if at.count <= root else floor(SURE * root / at.count)

    def fits(self, at: Progress, drawn: int) -> bool:
        """Unless neither place is in the sample; then nothing would be removed."""
        return drawn == at.count or any(self.places(at, drawn))

    def places(self, at: Progress, drawn: int) -> tuple[int, int]:
        """(ln n)^1/2 n^1/4 from where the k-th smallest should be."""
        margin = sqrt(log(at.nodes)) * at.nodes**0.25
        middle = at.k * drawn / at.count
        low, high = floor(middle - margin), ceil(middle + margin)
        return (low if 1 <= low <= drawn else 0, high if 1 <= high <= drawn else 0)

    def guess(self, at: Progress, drawn: int, places: tuple[int, int]) -> int:  # noqa: ARG002
        return 0

    def narrowed(self, at: Progress, cut: Window, told: Drawn) -> Progress:
        """It believes the window; with a c_l it takes one too many from k (rule 22)."""
        count = at.count - told.before - told.behind
        return _replace(at, candidates=cut, k=at.k - told.before - at.left, count=count)

    def hopeless(self, at: Progress) -> bool:
        return at.samples >= SAMPLES_PRINTED_MAX


def window_of(at: Progress, bounds: Bounds) -> Window:
    """From the one element up to the other, which is in it."""
    stop = None if bounds.high is None else after(bounds.high)
    return at.candidates.narrowed(bounds.low, stop)


_replace: Final = msgspec.structs.replace
