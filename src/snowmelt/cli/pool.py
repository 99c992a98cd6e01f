"""`snowmelt pool`: pools from a shell: their members, and what their producers have.

How objects go in and out is in `pool_moving.py`.
"""

import json
from typing import Annotated

import msgspec
from rich.console import Console
from rich.table import Table

from snowmelt.cli.commands import Commands
from snowmelt.cli.options import CLUSTER, AsJson, ClusterOptions
from snowmelt.cli.pool_moving import POOL, get, put
from snowmelt.cli.tables import listing
from snowmelt.client.connection.steps import run
from snowmelt.client.pool.status import describe, pools
from snowmelt.protocols.pool.introductions import PoolStatus

pool = Commands(help="Pools: objects stay with their producers.", no_args_is_help=True)


@pool.command(name="list")
def list_(as_json: AsJson = False, at: ClusterOptions = CLUSTER) -> None:
    """List the pools that somebody is in."""
    with at.clients() as port:
        found = run(port, pools(at.timeout))
    if as_json:
        print(json.dumps({"pools": [pool_object(one) for one in found]}))
    elif found:
        Console().print(pools_table(found))
    else:
        print("no pool has members")


@pool.command()
def stats(
    name: Annotated[str, POOL],
    as_json: AsJson = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Show a pool's members: what each producer has and makes, and how many consume."""
    with at.clients() as port:
        status = run(port, describe(name, at.timeout))
    if as_json:
        print(json.dumps(pool_object(status)))
    elif status.producers or status.consumers:
        Console().print(pool_table(status))
    else:
        print(f"{name} has no members")


def pool_object(status: PoolStatus) -> dict[str, object]:
    """A pool as one JSON object, its fields by name."""
    return {
        "pool": status.name,
        "producers": [
            msgspec.structs.asdict(one) | {"address": str(one.address), "stock": stock}
            for one, stock in zip(status.producers, status.stocks, strict=True)
        ],
        "consumers": list(status.consumers),
        "stock": sum(status.stocks),
    }


def pools_table(found: list[PoolStatus]) -> Table:
    """Shows the pools, one row a pool."""
    table = listing(("pool", "producers", "consumers", "stock", "objects/s"), words=("pool",))
    for one in found:
        counts = (len(one.producers), len(one.consumers), sum(one.stocks))
        rate = sum(producer.rate for producer in one.producers)
        table.add_row(one.name, *(f"{count:,}" for count in counts), rate_text(rate))
    return table


def pool_table(status: PoolStatus) -> Table:
    """A row for each producer; the title counts the consumers."""
    makers, eaters = len(status.producers), len(status.consumers)
    title = f"{status.name} has {_counted(makers, 'producer')} and {_counted(eaters, 'consumer')}"
    heads = ("producer", "address", "stock", "objects/s", "")
    table = listing(heads, words=("producer", "address", ""), title=title)
    for one, stock in zip(status.producers, status.stocks, strict=True):
        state = "leaving" if one.leaving else ""
        table.add_row(one.name, str(one.address), f"{stock:,}", rate_text(one.rate), state)
    return table


def rate_text(rate: float) -> str:
    """How many objects a second, as a person reads it; one that is hardly known yet is none.

    >>> rate_text(1234.5), rate_text(0.25), rate_text(0.0001), rate_text(0)
    ('1,234', '0.25', '-', '-')
    """
    if rate < 0.001:
        return "-"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


for command in (put, get):
    pool.command()(command)
