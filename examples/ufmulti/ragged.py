"""Rows that belong to owners, many or none each, without a loop over the owners.

The rows of owner `i` lie at `first[i]` up to `first[i + 1]` of a flat array.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def starts(counts: NDArray[np.integer]) -> Ints:
    """Where the rows of each owner begin, and behind the last of them all the end.

    >>> starts(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def spans(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Every index of every span `start[i]` up to `stop[i]`, each with the `i` of its span.

    It is how a thing is met with all rows of some owner: with n spans, one pass over what they
    hold.

    >>> span, index = spans(np.array([5, 0, 7]), np.array([7, 0, 8]))
    >>> span.tolist(), index.tolist()
    ([0, 0, 2], [5, 6, 7])
    """
    counts = stop - start
    span = np.repeat(np.arange(len(counts)), counts)
    return span, np.arange(len(span)) + np.repeat(start - starts(counts)[:-1], counts)
