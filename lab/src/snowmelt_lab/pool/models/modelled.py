"""A model's answer, and how it is put together."""

from dataclasses import dataclass

import msgspec
import numpy as np

from snowmelt_lab.pool.models.chain import Array, Setting, shares_of_time, solved
from snowmelt_lab.pool.models.requests import Requests, agree
from snowmelt_lab.pool.options import PoolOptions


class Modelled(msgspec.Struct, frozen=True, kw_only=True):
    """Named as `measures.Measured` names what is measured. Times are in ticks."""

    throughput: float
    """Objects consumed in a tick: the paper's T."""
    wait_mean: float
    """From a request to its object: W."""
    hops_mean: float
    """How many producers are probed for an object: h_avg."""
    producer_blocked: float
    """The share of time that producers are held up: 1 - U_p."""
    consumer_busy: float
    """The share of time that consumers use objects: U_c."""
    probe_empty: float
    """The share of probes that find nothing: p_mt."""
    request_blocked: float
    """The share of requests that wait in line."""
    messages_per_object: float
    """From request to object."""
    states: dict[str, float]
    """The share of time that producers are in each state, but for states that are very rare."""
    converged: bool
    """Whether all equations hold to a billionth, and objects made are objects used."""


@dataclass(frozen=True)
class Producers:
    """Producers in equilibrium: so many of each kind."""

    counts: Array
    setting: Setting
    log_rate: Array


@dataclass(frozen=True)
class Consumers:
    """Consumers in equilibrium: so many of each kind."""

    counts: Array
    fared: Requests
    wait: Array
    """From request to object."""


def modelled(
    options: PoolOptions, producers: Producers, consumers: Consumers, *, hold: bool = True
) -> Modelled:
    """What the two come to; `hold` says whether the equations between them hold."""
    full = solved(producers.setting, producers.log_rate).full
    made = float(producers.counts @ (producers.setting.make * (1 - full)))
    busy = 1 / (1 + options.consume_rate * consumers.wait)
    served = consumers.counts * options.consume_rate * busy
    used = float(served.sum())
    fared = consumers.fared
    hops = float(served @ fared.hops) / used
    return Modelled(
        throughput=used,
        wait_mean=float(served @ consumers.wait) / used,
        hops_mean=hops,
        producer_blocked=float(producers.counts @ full) / options.producers,
        consumer_busy=used / options.consume_rate / options.consumers,
        probe_empty=float(served @ (fared.hops * fared.empty)) / used / hops,
        request_blocked=float(served @ fared.in_line) / used,
        messages_per_object=hops + 1,
        states=shares_of_time(producers.setting, producers.log_rate, producers.counts),
        converged=hold and agree(made, used) and bool(np.isfinite(used)),
    )
