"""Random small histories, near the edge between legal and illegal."""

from random import Random

from snowmelt_world.check.history import Ended, History, Kind, Operation


def history(
    chance: Random, *, operations: int = 6, batches: tuple[int, ...] = (1, 1, 3)
) -> History:
    """Up to so many calls: single or batched, empty, failed, unknown; times with many ties."""
    puts = chance.randint(1, max(1, operations // 2))
    gets = chance.randint(1, operations - puts)
    span = chance.choice((5, 8, 14))
    rate = chance.choice((0.0, 0.0, 0.15))
    batch = chance.choice(batches)
    names = iter("abcdefghijklmnopqrstuvwxyz")
    made = []
    for _ in range(puts):
        values = tuple(next(names) for _ in range(chance.randint(1, batch)))
        made.append(_call(chance, Kind.PUT, values, span, rate))
    values = [value for one in made for value in one.values]
    left = _almost_in_order(chance, values)
    if chance.random() < 0.04:
        left.append(chance.choice([*values, "z"]))
    for _ in range(gets):
        count = 0 if chance.random() < 0.25 else chance.randint(1, batch)
        taken, left = left[:count], left[count:]
        made.append(_call(chance, Kind.GET, tuple(taken), span, rate))
    chance.shuffle(made)
    return History.of(made)


def _call(chance: Random, kind: Kind, values: tuple[str, ...], span: int, rate: float) -> Operation:
    # Puts lean to the beginning and gets to the end, or hardly any history would be legal.
    start = chance.randint(0, span) + (span // 3 if kind is Kind.GET else 0)
    stop = start + chance.choice((0, 1, 2, 4, span))
    ended = Ended.SUCCEEDED
    if chance.random() < rate:
        ended = chance.choice((Ended.UNKNOWN, Ended.UNKNOWN, Ended.FAILED))
    if ended is Ended.UNKNOWN:
        returned = chance.choice((None, stop))
        return Operation("p", kind, values if kind is Kind.PUT else (), start, returned, ended)
    return Operation("p", kind, values, start, stop, ended)


def _almost_in_order(chance: Random, values: list[str]) -> list[str]:
    values = list(values)
    for _ in range(chance.randint(0, 3)):
        if len(values) > 1:
            place = chance.randrange(len(values) - 1)
            values[place], values[place + 1] = values[place + 1], values[place]
    if chance.random() < 0.2:
        values.pop(chance.randrange(len(values)))
    return values
