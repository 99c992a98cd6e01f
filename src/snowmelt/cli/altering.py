"""`snowmelt alter`: settings of a queue that is there, while it runs."""

from typing import Annotated, Any

import typer

from snowmelt.cli.asking import HERE, Place
from snowmelt.cli.queue import QUEUE
from snowmelt.cli.queue_show import settings_object
from snowmelt.core.errors import BadOption
from snowmelt.protocols.queue.settings import FOR_EVER, QueueSettings

ORDER = typer.Option(hidden=True)
"""Of what is settled for ever: who says it is told so."""


def alter(
    queue: Annotated[str, QUEUE],
    replicas: Annotated[int | None, typer.Option(help="How many copies there are.")] = None,
    durable_copies: Annotated[
        int | None, typer.Option(help="How many of them a put waits for; 0 is most of them.")
    ] = None,
    flush: Annotated[
        str | None, typer.Option(help="Seconds a flush may be put off, or always.")
    ] = None,
    lease: Annotated[float | None, typer.Option(help="Seconds a consumer holds an item.")] = None,
    max_deliveries: Annotated[
        int | None, typer.Option(help="After so many failures an item is set aside.")
    ] = None,
    max_items: Annotated[int | None, typer.Option(help="The bound in items; 0 is none.")] = None,
    max_bytes: Annotated[int | None, typer.Option(help="The bound in bytes; 0 is none.")] = None,
    inline_max: Annotated[
        int | None, typer.Option(help="Larger puts lie on data nodes; in bytes.")
    ] = None,
    priorities: Annotated[str | None, ORDER] = None,
    largest_first: Annotated[bool | None, ORDER] = None,
    ordering: Annotated[str | None, ORDER] = None,
    at: Place = HERE,
) -> None:
    """Alter settings of a queue while it runs; what is not named stays as it is."""
    named: dict[str, Any] = {
        "replicas": replicas,
        "durable_copies": durable_copies,
        "flush": _seconds(flush),
        "lease": lease,
        "max_deliveries": max_deliveries,
        "max_items": max_items,
        "max_bytes": max_bytes,
        "inline_max": inline_max,
    }
    order = {"priorities": priorities, "largest_first": largest_first, "ordering": ordering}
    for option, value in order.items():
        if value is not None:
            raise BadOption(f"--{option.replace('_', '-')}", value, f"nothing; {FOR_EVER}")
    said = {option: value for option, value in named.items() if value is not None}
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        found.alter(timeout=at.timeout, **said)
        settings = found.stats(timeout=at.timeout).settings
    assert isinstance(settings, QueueSettings), "others are not altered"
    now = settings_object(settings)
    print(f"{queue} has {', '.join(f'{option}={now[option]}' for option in said)} now")


def _seconds(flush: str | None) -> float | str | None:
    """As `cluster.fifo` takes it."""
    try:
        return flush if flush is None else float(flush)
    except ValueError:
        return flush
