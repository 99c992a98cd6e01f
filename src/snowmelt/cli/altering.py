"""`snowmelt create`, `alter`, `pause` and `resume`: a queue as a thing with settings."""

from typing import Annotated, Any

import msgspec
import typer

from snowmelt.cli.options import HERE, PlaceOptions, QueueName
from snowmelt.cli.queue import LARGEST_FIRST, PARTITIONS, PRIORITIES, urgency
from snowmelt.client.queue.rows import settings_object
from snowmelt.core.errors import BadOption
from snowmelt.protocols.queue.api.settings import FOR_EVER

ORDER = typer.Option(hidden=True)
"""For what is settled for ever: the command refuses it with the reason."""


class SettingsOptions(msgspec.Struct, frozen=True):
    """Settings, each as an option."""

    replicas: Annotated[int | None, typer.Option(help="How many copies there are.")] = None
    durable_copies: Annotated[
        int | None, typer.Option(help="How many of them a put waits for; 0: a majority.")
    ] = None
    flush: Annotated[
        str | None, typer.Option(help="Seconds a flush may wait, or always for none.")
    ] = None
    lease: Annotated[float | None, typer.Option(help="Seconds a consumer holds an item.")] = None
    max_deliveries: Annotated[
        int | None, typer.Option(help="How many failures make an item a dead letter.")
    ] = None
    max_items: Annotated[int | None, typer.Option(help="Items at most; 0: no limit.")] = None
    max_bytes: Annotated[int | None, typer.Option(help="Bytes at most; 0: no limit.")] = None
    inline_max: Annotated[int | None, typer.Option(help="Bytes; larger puts go to data nodes.")] = (
        None
    )
    retention: Annotated[
        float | None, typer.Option(help="Seconds after which what waits ends; 0: never.")
    ] = None
    in_order_by_key: Annotated[
        bool | None, typer.Option(help="Give the items of a key one after the other.")
    ] = None
    at_once_by_key: Annotated[
        int | None, typer.Option(help="Items of a key in hand at most; 0: no limit.")
    ] = None
    at_once: Annotated[int | None, typer.Option(help="Items in hand at most; 0: no limit.")] = None
    per_second_by_key: Annotated[
        int | None, typer.Option(help="Items of a key given out a second; 0: no limit.")
    ] = None
    per_second: Annotated[
        int | None, typer.Option(help="Items given out a second; 0: no limit.")
    ] = None
    fair: Annotated[
        bool | None, typer.Option(help="Give next of the key with the least in hand.")
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(help="KEY=N: that key counts N times for --fair; repeat for more."),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """What was said, as `cluster.fifo` takes it."""
        named = msgspec.structs.asdict(self) | {"flush": _seconds(self.flush)}
        named["weights"] = dict(map(_weight, named.pop("weight") or ())) or None
        return {option: value for option, value in named.items() if value is not None}


NOTHING = SettingsOptions()


def create(
    queue: QueueName,
    said: SettingsOptions = NOTHING,
    priorities: Annotated[str | None, PRIORITIES] = None,
    largest_first: Annotated[bool | None, LARGEST_FIRST] = None,
    partitions: Annotated[int | None, PARTITIONS] = None,
    at: PlaceOptions = HERE,
) -> None:
    """Make a queue: a fifo, or by priorities. One that is there as you say is left as it is."""
    ranked = urgency(None, priorities, largest_first).options
    options = said.options | ({} if partitions is None else {"partitions": partitions})
    with at.open() as cluster:
        was_there = queue in cluster.queues(timeout=at.timeout)
        made = cluster.fifo(queue, **options)
        wanted = cluster.priority(queue, **options, **ranked) if ranked else made
        wanted.create(timeout=at.timeout)
        told = wanted.stats(timeout=at.timeout)
    named = ", ".join(f"{name}={value}" for name, value in settings_object(told.settings).items())
    print(f"{queue} {'was there' if was_there else 'is made'}: {named}")


def alter(
    queue: QueueName,
    said: SettingsOptions = NOTHING,
    priorities: Annotated[str | None, ORDER] = None,
    largest_first: Annotated[bool | None, ORDER] = None,
    partitions: Annotated[str | None, ORDER] = None,
    at: PlaceOptions = HERE,
) -> None:
    """Alter settings of a queue while it runs. What is not named stays as it is."""
    order = {"priorities": priorities, "largest_first": largest_first, "partitions": partitions}
    for option, value in order.items():
        if value is not None:
            raise BadOption(f"--{option.replace('_', '-')}", value, f"nothing; {FOR_EVER}")
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        found.alter(timeout=at.timeout, **said.options)
        settings = found.stats(timeout=at.timeout).settings
    now = settings_object(settings)
    print(
        f"{queue} has {', '.join(f'{option}={now.get(option, 0)}' for option in said.options)} now"
    )


def pause(queue: QueueName, at: PlaceOptions = HERE) -> None:
    """Stop the handing out of items. Puts are taken; what is leased stays with its holder."""
    with at.open() as cluster:
        cluster.queue(queue, timeout=at.timeout).pause(timeout=at.timeout)
    print(f"{queue} is paused; snowmelt resume {queue} lets it go on")


def resume(queue: QueueName, at: PlaceOptions = HERE) -> None:
    """Let the handing out of items go on."""
    with at.open() as cluster:
        cluster.queue(queue, timeout=at.timeout).resume(timeout=at.timeout)
    print(f"{queue} is open")


def _weight(said: str) -> tuple[str, int]:
    """A key and its weight.

    >>> _weight("tenant=7=3")
    ('tenant=7', 3)
    """
    key, _, weight = said.rpartition("=")
    if not (key and weight.isdecimal()):
        raise BadOption("--weight", said, "KEY=N, with a whole number N")
    return key, int(weight)


def _seconds(flush: str | None) -> float | str | None:
    try:
        return flush if flush is None else float(flush)
    except ValueError:
        return flush
