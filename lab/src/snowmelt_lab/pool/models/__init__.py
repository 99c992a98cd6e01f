"""The paper's three models, with their errors mended, and one that is nearer to the truth.

What they are, where the paper is wrong and by how much they are off is in
`docs/research/pool-model.md`. `chain` is one producer; `equal`, `typed` and `lists` are the paper's
sections 4.1 to 4.3, the last two by the equations in `agreement`; `wandering` refines any of them.
They need numpy, of the extra `lab`. >>> from snowmelt_lab.pool.options import PoolOptions >>>
answer = solve(PoolOptions(consumers=200, max_hops=1)) >>> round(answer.throughput, 2),
round(answer.wait_mean), answer.converged (0.79, 152, True)
"""

from enum import Enum

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.pool.models.equal import solve_equal
from snowmelt_lab.pool.models.lists import solve_lists
from snowmelt_lab.pool.models.modelled import Modelled
from snowmelt_lab.pool.models.typed import solve_typed
from snowmelt_lab.pool.models.wandering import Solve, refined
from snowmelt_lab.pool.options import BUFFERS_MAX, RATE_MOST, Algorithm, PoolOptions

__all__ = ["Model", "Modelled", "solve"]

CENTRAL_MESSAGES = 4.0
"""Deposit, Promised, Fetch, Fetched."""


class Model(Enum):
    PAPER = "paper"
    """Not at all."""
    REFINED = "refined"
    """By what all of them have in stock together, which wanders."""


def solve(options: PoolOptions, model: Model = Model.PAPER) -> Modelled:
    """What the options come to, by the model that they need; the kinds of times are left out.

    >>> solve(PoolOptions(algorithm=Algorithm.MANAGER))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --algorithm is 'manager'; allowed: stochastic or central...
    """
    match options.algorithm:
        case Algorithm.STOCHASTIC:
            simple = _solve_of(options)
            if model is Model.PAPER:
                return simple(options)
            return refined(options, solve_typed if simple is solve_equal else simple)
        case Algorithm.CENTRAL:
            return _central(options)
        case Algorithm.MANAGER:
            allowed = "stochastic or central: of the queue manager there is no model"
            raise BadOption("--algorithm", options.algorithm.value, allowed)


def _solve_of(options: PoolOptions) -> Solve:
    if options.fan_out and options.fan_out < options.producers:
        return solve_lists
    return solve_typed if options.groups else solve_equal


def _central(options: PoolOptions) -> Modelled:
    """One shared buffer is one producer with everybody's rate and places, which is asked once."""
    places = options.producers * options.buffers
    rate = options.producers * options.produce_rate
    if places > BUFFERS_MAX:
        raise BadOption("--producers times --buffers", places, f"1 to {BUFFERS_MAX} when central")
    if rate > RATE_MOST:
        allowed = f"{RATE_MOST:g} at most when central; count longer ticks"
        raise BadOption("--producers times --produce-rate", rate, allowed)
    if options.process:
        raise BadOption("--process", options.process, "0 with the model of the central buffer")
    shared = msgspec.structs.replace(
        options,
        algorithm=Algorithm.STOCHASTIC,
        producers=1,
        produce_rate=rate,
        buffers=places,
        max_hops=1,
        groups=(),
    )
    answer = solve_equal(shared)
    return msgspec.structs.replace(answer, messages_per_object=CENTRAL_MESSAGES, states={})
