"""What one pool comes to, measured or computed, as lines for a person."""

from typing import Any, Final

from snowmelt.lab.pool.options import PoolOptions

STATE_LEAST: Final = 0.01
"""States with a smaller share of the time are not worth a word."""


def print_measures(options: PoolOptions, how: str, told: dict[str, Any]) -> None:
    """All that measured and modelled pools have in common, up to the messages of an object."""
    print(
        f"{options.algorithm.value}: {options.producers} producers, {options.consumers} consumers,"
        f" load {options.load:.0%}, {how}"
    )
    half_width = told.get("wait_ci95")
    error = "" if half_width is None else f" +- {half_width:.2g}"
    print(f"throughput        {told['throughput']:.4g} objects a tick")
    print(f"wait              {told['wait_mean']:.4g}{error} ticks")
    print(f"probes            {told['hops_mean']:.3f} an object")
    print(f"busy              {told['consumer_busy']:.1%} of the consumers' time")
    print(f"held up           {told['producer_blocked']:.1%} of the producers' time")
    print(f"found nothing     {told['probe_empty']:.1%} of the probes")
    print(f"waited in line    {told['request_blocked']:.1%} of the requests")
    often = [(state, share) for state, share in told["states"].items() if share >= STATE_LEAST]
    if often:
        print(f"producers have    {'  '.join(f'{state}: {share:.1%}' for state, share in often)}")
    print(f"messages          {told['messages_per_object']:.3f} an object", end="")
