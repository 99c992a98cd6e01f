"""The paper's model of loss, solved exactly (Blizzard, section 3.2).

Rules:

1. One copy fails within s seconds with chance q(s) = 1 - (1 - P)^s.
2. All R copies fail within one window of W seconds with chance q(W)^R.
3. T seconds hold n = floor(T / W) whole windows and a last one cut short after r = T - nW seconds.
   In that one all copies are gone already with chance q(r)^R. So

       loss(T) = 1 - (1 - q(W)^R)^n * (1 - q(r)^R)

   which never falls and never leaps. (Leaving the last window out instead would lower the loss by
   less than one window's worth.)

Small chances are kept whole by log1p and expm1: 1 - (1 - x)^n with x near 1e-17 would be 0.
"""

from math import expm1, floor, inf, isfinite, log1p

import msgspec

from snowmelt.core.errors import BadOption

WINDOW_MIN = 0.001
SECONDS_MAX = 1e10  # three centuries
REPLICAS_MAX = 32


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that fail, and windows at whose end all is copied anew.

    >>> model = Windows(fail_per_second=0.0001, window=20, replicas=3)
    >>> f"{model.loss(48):.4%}"
    '0.0069%'
    """

    fail_per_second: float
    window: float
    replicas: int

    def __post_init__(self) -> None:
        if not 0 <= self.fail_per_second <= 1:
            raise BadOption("--fail-per-second", self.fail_per_second, "a chance, 0 to 1")
        if not WINDOW_MIN <= self.window <= SECONDS_MAX:
            allowed = f"seconds above 0, {WINDOW_MIN:g} to {SECONDS_MAX:g}"
            raise BadOption("--window", self.window, allowed)
        if not 1 <= self.replicas <= REPLICAS_MAX:
            raise BadOption("--replicas", self.replicas, f"a whole number, 1 to {REPLICAS_MAX}")

    @property
    def rate(self) -> float:
        """Failures of one node a second, as the Poisson process with the same chance a second.

        >>> Windows(fail_per_second=1, window=20, replicas=3).rate
        inf
        """
        return inf if self.fail_per_second == 1 else -log1p(-self.fail_per_second)

    def all_fail_within(self, span: float) -> float:
        """The chance that all copies fail within a span of seconds: q(span)^R.

        >>> Windows(fail_per_second=0.5, window=20, replicas=2).all_fail_within(1)
        0.25
        """
        return 0.0 if span <= 0 else (-expm1(-span * self.rate)) ** self.replicas

    def loss(self, hours: float) -> float:
        """The chance that an item is lost within so many hours.

        >>> Windows(fail_per_second=0.01, window=20, replicas=3).loss(0)
        0.0
        """
        whole, rest = divmod(span_of(hours), self.window)
        kept = whole * _log_kept(self.all_fail_within(self.window)) if whole else 0.0
        return 0.0 - expm1(kept + _log_kept(self.all_fail_within(rest)))  # -0.0 is no chance

    def hours_until(self, loss: float) -> float:
        """When the loss has come to this chance: the other way round; infinite if it never does.

        >>> model = Windows(fail_per_second=0.01, window=20, replicas=3)
        >>> f"{model.hours_until(0.5) * 60:.1f} minutes"
        '38.3 minutes'
        """
        if not 0 <= loss < 1:
            raise BadOption("loss", loss, "a chance, from 0 to below 1")
        whole_window = _log_kept(self.all_fail_within(self.window))
        if loss == 0 or whole_window == -inf:
            return 0.0  # with P = 1 all copies are gone at once
        if whole_window == 0:
            return inf
        whole = floor(log1p(-loss) / whole_window)
        missing = -expm1(log1p(-loss) - whole * whole_window)
        one_copy = max(0.0, missing) ** (1 / self.replicas)
        return (whole * self.window - log1p(-one_copy) / self.rate) / 3600


def span_of(hours: float) -> float:
    """Hours in seconds; refuses what is no span.

    >>> span_of(-1)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --hours is -1; allowed: 0 to 2.77778e+06
    """
    if not isfinite(hours) or not 0 <= hours <= SECONDS_MAX / 3600:
        raise BadOption("--hours", hours, f"0 to {SECONDS_MAX / 3600:g}")
    return hours * 3600


def _log_kept(lost: float) -> float:
    return -inf if lost >= 1 else log1p(-lost)
