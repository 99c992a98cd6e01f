"""`snowmelt advise`: which settings a pool needs, before it is deployed or while it runs."""

import json
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from snowmelt.cli.options import TIMEOUT, TOKEN, AsJson, ClusterOptions, check_timeout
from snowmelt.cli.tables import listing
from snowmelt.client.connection.steps import run
from snowmelt.client.pool.status import describe
from snowmelt.core.errors import BadOption, StateError
from snowmelt_lab.pool.advice import Advice, Alternative, alternative, judges, simulated
from snowmelt_lab.pool.advice import advise as advised
from snowmelt_lab.pool.observed import Observed, observed
from snowmelt_lab.pool.options import groups_of
from snowmelt_lab.pool.reasons import reasons
from snowmelt_lab.pool.situation import Situation, bytes_of

WATCH_MOST = 3600.0
WORDS = ("setting", "access", "")


def advise(
    producers: Annotated[int, typer.Option(help="How many processes make objects.")] = 0,
    consumers: Annotated[int, typer.Option(help="How many use them.")] = 0,
    produce_rate: Annotated[
        float, typer.Option(help="Objects a second that one producer makes, in the mean.")
    ] = 0.0,
    consume_rate: Annotated[
        float, typer.Option(help="Objects a second that one consumer can use.")
    ] = 0.0,
    transit_ms: Annotated[
        float, typer.Option(help="Milliseconds that a small message takes.")
    ] = 0.3,
    object_size: Annotated[str, typer.Option(help="As 100, 64kB, 1MB, 1MiB.")] = "",
    bandwidth: Annotated[
        str, typer.Option(help="Bytes a second between two processes, as 100MB, 1GB.")
    ] = "1GB",
    groups: Annotated[
        str, typer.Option(help="Producers of several kinds, count:relative rate: 10:9,90:1.")
    ] = "",
    memory: Annotated[str, typer.Option(help="Of a producer's buffers, at most.")] = "1GiB",
    links: Annotated[
        int, typer.Option(help="Producers that a consumer may know at most; 0 is all.")
    ] = 0,
    from_cluster: Annotated[
        str, typer.Option(help="Take the numbers from the pool --pool that runs there.")
    ] = "",
    pool: Annotated[str, typer.Option(help="The name of the pool.")] = "",
    watch: Annotated[float, typer.Option(help="Seconds to watch it.")] = 10.0,
    check: Annotated[bool, typer.Option("--check", help="Simulate what is advised.")] = False,
    as_json: AsJson = False,
    token_file: Annotated[Path | None, TOKEN] = None,
    timeout: Annotated[float, TIMEOUT] = 10.0,
) -> None:
    """Advise a pool's settings. What they give, what they cost, and why."""
    seen = None
    if from_cluster:
        seen = _watched(ClusterOptions(from_cluster, token_file, timeout), pool, watch)
        producers = producers or seen.producers
        consumers = consumers or seen.consumers
        produce_rate = produce_rate or seen.produce_rate
        consume_rate = consume_rate or seen.consume_rate
        _check_known(consume_rate)
    if links < 0:
        raise BadOption("--links", links, "0, for any number, or more")
    alike = seen is None or groups or producers != seen.producers
    situation = Situation(
        producers=producers,
        consumers=consumers,
        produce_rate=produce_rate,
        consume_rate=consume_rate,
        transit=transit_ms / 1000,
        object_bytes=_size(object_size, seen),
        bandwidth=bytes_of("--bandwidth", bandwidth),
        groups=groups_of(groups) if alike or seen is None else seen.groups,
        memory=bytes_of("--memory", memory),
        links=links,
    )
    by = judges()
    advice = advised(situation, by)
    checked = simulated(advice, by.kernel) if check and by.kernel is not None else None
    now = None if seen is None else alternative("now", situation, seen.setting, by)
    if as_json:
        print(json.dumps(_object(advice, checked, seen, now, pool)))
        return
    _show(advice, checked, pool or "frames")
    if seen is not None and now is not None:
        _show_seen(seen, now)


def _check_known(consume_rate: float) -> None:
    if not consume_rate:
        allowed = "above 0; nobody has used an object there, so nothing tells it"
        raise BadOption("--consume-rate", consume_rate, allowed)


def _size(text: str, seen: Observed | None) -> int:
    if text or seen is None:
        return bytes_of("--object-size", text or "1MB")
    return seen.object_bytes


def _watched(at: ClusterOptions, pool: str, watch: float) -> Observed:
    """What a pool does, from two looks at it."""
    check_timeout(at.timeout)
    if not pool:
        raise BadOption("--pool", pool, "the name of a pool that runs there")
    if not 1 <= watch <= WATCH_MOST:
        raise BadOption("--watch", watch, f"1 to {WATCH_MOST:g} seconds")
    with at.clients() as clients:
        before = run(clients, describe(pool, at.timeout))
        time.sleep(watch)
        after = run(clients, describe(pool, at.timeout))
    if not after.producers or not after.consumers:
        who = "consumes from" if after.producers else "produces in"
        raise StateError(f"nobody {who} {pool}; look at `snowmelt pool stats {pool}`")
    return observed(before, after)


# --- what is shown -------------------------------------------------------------------------------


def _object(
    advice: Advice,
    checked: Alternative | None,
    seen: Observed | None,
    now: Alternative | None,
    pool: str,
) -> dict[str, object]:
    return {
        "situation": msgspec.to_builtins(advice.situation),
        "setting": msgspec.to_builtins(advice.setting),
        "python": advice.setting.line(pool or "frames", advice.max_bytes),
        "outcome": msgspec.to_builtins(advice.chosen.outcome),
        "judge": advice.chosen.judge,
        "most": advice.most,
        "reasons": reasons(advice),
        "alternatives": msgspec.to_builtins(advice.others),
        "simulated": None if checked is None else msgspec.to_builtins(checked.outcome),
        "measured": None if seen is None else msgspec.to_builtins(seen),
        "predicted": None if now is None else msgspec.to_builtins(now.outcome),
    }


def _show(advice: Advice, checked: Alternative | None, pool: str) -> None:
    console = Console()
    console.print(
        advice.setting.line(pool, advice.max_bytes), markup=False, highlight=False, soft_wrap=True
    )
    console.print()
    for reason in reasons(advice):
        console.print(f"- {reason}", markup=False, highlight=False, soft_wrap=True)
    console.print()
    table = listing(
        ("setting", "buffers", "hops", "fan-out", "access", "objects/s", "wait ms"), WORDS
    )
    for one in (advice.chosen, *([checked] if checked else []), *advice.others):
        setting, outcome = one.setting, one.outcome
        table.add_row(
            one.name,
            str(setting.buffers),
            str(setting.max_hops),
            str(setting.fan_out or "all"),
            setting.access.value,
            f"{outcome.throughput:,.5g}",
            f"{outcome.wait * 1000:,.4g}",
        )
    console.print(table)
    console.print()
    costs = listing(
        ("setting", "makers", "users", "messages", "memory", "of all", "links", "of all"), WORDS
    )
    for one in (advice.chosen, *advice.others):
        outcome = one.outcome
        costs.add_row(
            one.name,
            f"{outcome.producer_use:.0%}",
            f"{outcome.consumer_use:.0%}",
            f"{outcome.messages:.2f}",
            size_text(outcome.memory),
            size_text(outcome.memory_all),
            f"{outcome.consumer_links}, {outcome.producer_links}",
            f"{outcome.links_all:,}",
        )
    console.print(costs)
    console.print(
        f"by the {advice.chosen.judge}; {size_text(round(advice.chosen.outcome.network))} a second "
        "on the network. makers, users: share of time at work; messages: an object, with its "
        "settlement; memory: of a producer; links: of a consumer, of a producer",
        highlight=False,
    )


def _show_seen(seen: Observed, now: Alternative) -> None:
    console = Console()
    setting, outcome = now.setting, now.outcome
    console.print(
        f"\nas it runs, with buffers={setting.buffers}, max_hops={setting.max_hops}, "
        f'fan_out={setting.fan_out}, access="{setting.access.value}":',
        highlight=False,
    )
    table = listing(("", "predicted", "measured"), WORDS)
    rows = (
        ("objects/s", f"{outcome.throughput:,.5g}", f"{seen.throughput:,.5g}"),
        ("wait ms", f"{outcome.wait * 1000:,.4g}", f"{seen.wait * 1000:,.4g}"),
        ("probes", f"{outcome.messages - 2:.2f}", f"{seen.probes:.2f}"),
        ("makers at work", f"{outcome.producer_use:.0%}", f"{seen.producer_use:.0%}"),
        ("users at work", f"{outcome.consumer_use:.0%}", f"{seen.consumer_use:.0%}"),
    )
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if not seen.reports:
        console.print("nothing is measured: the processes there do not report it", highlight=False)


def size_text(size: int) -> str:
    """A size as a person reads it.

    >>> size_text(999), size_text(4_700_000), size_text(10_150_000_000)
    ('999 B', '4.7 MB', '10.2 GB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"
