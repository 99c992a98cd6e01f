"""How far nodes are from each other in a graph, and which is nearest to all."""

from collections import deque
from collections.abc import Sequence

Graph = Sequence[Sequence[int]]


def distances_from(graph: Graph, one: int) -> list[int]:
    """How many edges each node is away; the graph hangs together.

    >>> distances_from([[1], [0, 2], [1]], 0)
    [0, 1, 2]
    """
    found = [-1] * len(graph)
    found[one] = 0
    waiting = deque([one])
    while waiting:
        node = waiting.popleft()
        for other in graph[node]:
            if found[other] < 0:
                found[other] = found[node] + 1
                waiting.append(other)
    return found


def median_of(graph: Graph) -> int:
    """The node that is nearest to all together; the least among equals.

    >>> median_of([[1], [0, 2], [1]])
    1
    """
    return min(range(len(graph)), key=lambda one: (sum(distances_from(graph, one)), one))
