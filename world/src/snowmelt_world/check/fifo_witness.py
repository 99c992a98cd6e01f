"""First in, first out, judged by the product's own word.

The product says in which order it carried out the operations: `position` is the place of each in
one order of puts and gets together, from its log or its replies. Such a witness makes judging easy,
also with equal values. Two things must hold, and one sort finds both, O(n log n):

- Legality: in the order of the witness a sequential queue answers what was answered. The i-th value
  got is the i-th value put, and put before it; a get finds nothing exactly when as many values were
  got as put.
- Real time: the witness orders no operation before one that had returned before it was called.
  Walk the order with the latest call so far: no later operation may have returned before it.

Together they say that the history is linearizable, and the witness is the proof.

An operation of unknown outcome takes part if it has a position (and, for a get, its values): the
product knows more than the client. If it has none it may not have happened, and a history that is
legal without it is legal. If it is not legal without it, such a put whose value was got, or such a
get, leaves legality undecided; a violation of real time stands all the same.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from snowmelt_world.check.cuts import ALL
from snowmelt_world.check.history import Ended, History, Kind, Operation, Value, rows
from snowmelt_world.check.rules import Rule, judged
from snowmelt_world.check.verdict import Finding, Invalid, Undecided, Verdict

NAME: Final = "fifo_witness"


def check_fifo_witness(history: History) -> Verdict:
    """The order that the product gives is that of a queue, and fits the time that passed.

    >>> print(check_fifo_witness(History.of([
    ...     Operation("p1", Kind.PUT, ("a",), 1, 2, position=7),
    ...     Operation("p2", Kind.GET, ("a",), 3, 4, position=6),
    ... ])))
    fifo_witness: invalid: position 6 comes before 7, but had not begun when that one had ended
        p2 get 'a' [3, 4] at 6
        p1 put 'a' [1, 2] at 7
    """
    return judged(NAME, RULES, history)


def _out_of_order(history: History) -> Finding | None:
    moves = [one for one in history if one.kind in (Kind.PUT, Kind.GET)]
    unplaced = [one for one in moves if one.ended is Ended.SUCCEEDED and one.position is None]
    if unplaced:
        reason = f"{len(unplaced)} operations have no position, one is {unplaced[0]}"
        return Undecided(NAME, reason, example=(unplaced[0],))
    order = sorted(filter(_takes_part, moves), key=_position)
    verdict = _doubled(order) or _against_time(order)
    if verdict:
        return verdict
    illegal = _illegal(order)
    if illegal is None:
        return None
    doubt = next(_doubts(moves), None)
    if doubt is None:
        return illegal
    reason = f"{illegal.sentence}, unless this explains it: {doubt}"
    return Undecided(NAME, reason, example=(*illegal.example, doubt))


def _takes_part(operation: Operation) -> bool:
    if operation.ended is Ended.SUCCEEDED:
        return True
    told = operation.position is not None and bool(operation.values)
    return operation.ended is Ended.UNKNOWN and told


def _position(operation: Operation) -> int:
    assert operation.position is not None, operation
    return operation.position


def _doubts(moves: list[Operation]) -> Iterator[Operation]:
    """What may have happened, has no place in the order, and would matter."""
    got = {
        value
        for value, _ in rows(one for one in moves if one.kind is Kind.GET and _takes_part(one))
    }
    for one in moves:
        if one.ended is Ended.UNKNOWN and not _takes_part(one):
            matters = one.kind is Kind.GET or any(value in got for value in one.values)
            if matters:
                yield one


def _doubled(order: list[Operation]) -> Invalid | None:
    for one, other in pairwise(order):
        if one.position == other.position:
            sentence = f"position {one.position} was given to two operations"
            return Invalid(NAME, sentence, (one, other))
    return None


def _against_time(order: list[Operation]) -> Invalid | None:
    latest: Operation | None = None
    for one in order:
        if latest is not None and one.until < latest.called:
            sentence = (
                f"position {latest.position} comes before {one.position}, "
                "but had not begun when that one had ended"
            )
            return Invalid(NAME, sentence, (latest, one))
        if latest is None or one.called > latest.called:
            latest = one
    return None


def _illegal(order: list[Operation]) -> Invalid | None:
    put: list[tuple[Value, Operation]] = []
    got = 0
    for one in order:
        if one.kind is Kind.PUT:
            put += rows([one])
            continue
        if not one.values and got < len(put):
            value, first = put[got]
            return Invalid(NAME, f"a get found nothing, and {value!r} was next", (first, one))
        for value in one.values:
            if got == len(put):
                sentence = f"{value!r} was got, and the queue was empty in this order"
                return Invalid(NAME, sentence, (one,))
            expected, first = put[got]
            if value != expected:
                sentence = f"{value!r} was got, and {expected!r} was next"
                return Invalid(NAME, sentence, (first, one))
            got += 1
    return None


RULES: Final = (Rule(ALL, _out_of_order),)
