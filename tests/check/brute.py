"""Linearizability of a queue by trying every order: slow, and plainly right.

Each value of each call is a step. One step comes before another when its call had returned before
the other's was called, or when it stands before it in the same batch. Steps of unknown outcome may
be left out.
"""

from snowmelt_world.check.history import Ended, History, Kind, Operation

Step = tuple[Operation, int]
TAKEN_AT_MOST = 3


def is_linearizable(history: History, *, with_lost_gets: bool) -> bool:
    """Whether some order of the operations is that of a sequential queue.

    `with_lost_gets`: a get of unknown outcome may take up to three values.
    """
    operations = [
        one
        for one in history
        if one.ended is Ended.SUCCEEDED
        or (one.ended is Ended.UNKNOWN and (with_lost_gets or one.kind is Kind.PUT))
    ]
    steps = [(one, place) for one in operations for place in range(_size(one))]
    before = [sum(1 << i for i, a in enumerate(steps) if _precedes(a, b)) for b in steps]
    after = [sum(1 << i for i, b in enumerate(steps) if _precedes(a, b)) for a in steps]
    must = sum(1 << i for i, (one, _) in enumerate(steps) if one.ended is Ended.SUCCEEDED)
    dead: set[tuple[int, tuple[object, ...]]] = set()

    def explore(done: int, queue: tuple[object, ...]) -> bool:
        if done & must == must:
            return True
        if (done, queue) in dead:
            return False
        for index, step in enumerate(steps):
            if (done >> index & 1) or (before[index] & must & ~done) or (after[index] & done):
                continue
            left = _carried_out(step, queue)
            if left is not None and explore(done | 1 << index, left):
                return True
        dead.add((done, queue))
        return False

    return explore(0, ())


def _size(operation: Operation) -> int:
    if operation.kind is Kind.GET and operation.ended is Ended.UNKNOWN:
        return TAKEN_AT_MOST
    return max(1, len(operation.values))


def _precedes(a: Step, b: Step) -> bool:
    if a[0] is b[0]:
        return a[1] < b[1]
    return a[0].until < b[0].called


def _carried_out(step: Step, queue: tuple[object, ...]) -> tuple[object, ...] | None:
    operation, place = step
    if operation.kind is Kind.PUT:
        return (*queue, operation.values[place])
    if operation.ended is Ended.UNKNOWN:
        return queue[1:] if queue else None
    if not operation.values:
        return None if queue else queue
    return queue[1:] if queue and queue[0] == operation.values[place] else None
