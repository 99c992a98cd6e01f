"""Loss when time is not cut: a birth-death chain, solved by the exponential of its matrix.

State k: k of the R copies are gone. Rules:

1. Each copy that is there fails as a Poisson process of rate a: k -> k+1 at rate (R - k) a.
2. Each copy that is gone is being replaced, all side by side, and takes W seconds on average from
   its failure to its replacement (detection and copying): k -> k-1 at rate k / W.
3. State R is the end: nobody is left to copy from.

This is what the paper's assumption "re-replication occurs immediately at the end of the 20 second
period" leaves out: its windows stand still, so two failures a second apart that lie on both sides
of a window's edge do not meet, and a failure late in a window is mended within moments. Here every
failure opens a window of its own. For rare failures the chain's rate of loss is R a (a W)^(R-1),
the windows' is (a W)^R / W: the chain's is R times as high. That does not depend on repairs being
exponential: repairs that take exactly W give the same, to first order.
"""

from math import ceil, exp, isinf, log1p, log2

from snowmelt_lab.durability.windows import Windows, span_of

Matrix = list[list[float]]

STEP_MAX = 0.5  # moves expected in the first step; its series then ends within TERMS
TERMS = 20


def continuous_loss(model: Windows, hours: float) -> float:
    """The chance that an item is lost within so many hours, repairs taking W on average.

    >>> model = Windows(fail_per_second=0.0001, window=20, replicas=3)
    >>> f"{continuous_loss(model, 48):.4%}, {continuous_loss(model, 48) / model.loss(48):.2f} times"
    '0.0206%, 2.99 times'
    """
    span = span_of(hours)
    if span == 0 or model.rate == 0:
        return 0.0
    if isinf(model.rate):
        return 1.0
    return min(1.0, _over(_rates(model), span)[0][model.replicas])


def difference(model: Windows, hours: float) -> str:
    """How much the windows leave out, and why, in a sentence.

    >>> print(difference(Windows(fail_per_second=0.0001, window=20, replicas=3), 48))
    With time not cut into windows items are lost 2.99 times as fast: failures close together on...
    """
    by_windows, continuous = model.loss(hours), continuous_loss(model, hours)
    if by_windows == 0 or continuous == 1:
        return "By both models nothing is lost." if by_windows == 0 else "By both nothing is left."
    if model.replicas == 1:
        return "With one copy nothing is ever replaced: both models are the same."
    times = log1p(-continuous) / log1p(-by_windows)  # of the rates; the losses both end at 1
    return (
        f"With time not cut into windows items are lost {times:.3g} times as fast: failures close "
        "together on both sides of a window's edge meet too."
    )


def _rates(model: Windows) -> Matrix:
    """How often the chain moves from state to state; nothing leaves the last."""
    copies = model.replicas
    rates = [[0.0] * (copies + 1) for _ in range(copies + 1)]
    for gone in range(copies):
        rates[gone][gone + 1] = (copies - gone) * model.rate
        if gone:
            rates[gone][gone - 1] = gone / model.window
    return rates


def _over(rates: Matrix, span: float) -> Matrix:
    """The chances to go from state to state in a span: the matrix exponential, by uniformization.

    scipy's expm subtracts, so a loss of 1e-15 drowns in its rounding. Here everything is added and
    multiplied, nothing is negative, and every entry, however small, is right to about 1e-16 times
    the moves in the span.
    """
    pace = max(sum(row) for row in rates)
    halvings = max(0, ceil(log2(pace * span / STEP_MAX)))
    moves = pace * span / 2**halvings
    size = range(len(rates))
    jump = [[rate / pace for rate in row] for row in rates]
    for state in size:
        jump[state][state] = 1 - sum(rates[state]) / pace
    term = [[float(row == column) for column in size] for row in size]
    total = [list(row) for row in term]
    for number in range(1, TERMS):
        term = [[value * moves / number for value in row] for row in _times(term, jump)]
        total = [
            [a + b for a, b in zip(*rows, strict=True)] for rows in zip(total, term, strict=True)
        ]
    chances = [[value * exp(-moves) for value in row] for row in total]
    for _ in range(halvings):
        chances = _times(chances, chances)
    return chances


def _times(left: Matrix, right: Matrix) -> Matrix:
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, col, strict=True)) for col in columns] for row in left]
