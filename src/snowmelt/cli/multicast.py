"""`snowmelt multicast`: publishing to a topic, and listening to it, from a shell."""

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from snowmelt.cli.commands import Commands
from snowmelt.cli.get import as_seen
from snowmelt.cli.options import (
    CLUSTER,
    DEFAULT_URL,
    TOKEN,
    URL,
    USER,
    ClusterOptions,
    check_timeout,
)
from snowmelt.client.multicast.face import Subscription
from snowmelt.core.errors import BadOption, Empty

multicast = Commands(
    help="Topics: all subscribers get the same messages in one order.", no_args_is_help=True
)
TOPIC = typer.Argument(help="The topic's name.")


@multicast.command()
def publish(
    topic: Annotated[str, TOPIC],
    bodies: Annotated[
        list[str] | None,
        typer.Argument(help="The messages; none, or -, reads lines of standard input."),
    ] = None,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Publish to all subscribers: words, or each line of standard input as it comes."""
    count = 0
    with at.open() as cluster:
        said = cluster.multicast(topic)
        for body in _bodies(bodies):
            said.publish(body, timeout=at.timeout)
            count += 1
    print(f"{count} {'message' if count == 1 else 'messages'} published to {topic}")


@multicast.command()
def subscribe(
    topic: Annotated[str, TOPIC],
    count: Annotated[int, typer.Option("-n", "--count", help="How many; 0 for no end.")] = 0,
    timeout: Annotated[
        float | None, typer.Option(help="End after so many seconds without a message.")
    ] = None,
    positions: Annotated[
        bool,
        typer.Option("--positions", help="Print each position before its message, with a tab."),
    ] = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    token_file: Annotated[Path | None, TOKEN] = None,
    user: Annotated[str, USER] = "",
) -> None:
    """Write what is published from now on, a line each. Ends with 8 when nothing came in time."""
    if count < 0:
        raise BadOption("--count", count, "0 or more")
    if timeout is not None:
        check_timeout(timeout)
    with (
        ClusterOptions(url, token_file, user=user).open() as cluster,
        cluster.multicast(topic).subscribe(timeout) as subscription,
    ):
        print(f"listening to {topic} …", file=sys.stderr, flush=True)
        if not _write(subscription, count, positions=positions):
            raise Empty(f"nothing was published to {topic} in {timeout:g} s")


def _bodies(words: list[str] | None) -> Iterator[bytes]:
    if words and words != ["-"]:
        yield from map(os.fsencode, words)
        return
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")


def _write(subscription: Subscription, count: int, *, positions: bool) -> int:
    """Writes so many, or until none comes; how many came."""
    written, missed = 0, 0
    for message in islice(subscription, count or None):
        if subscription.missed > missed:
            missed = subscription.missed
            print("something may be missing here", file=sys.stderr, flush=True)
        line = b"%s\t" % str(message.position).encode() if positions else b""
        sys.stdout.buffer.write(line + as_seen(message.body) + b"\n")
        sys.stdout.buffer.flush()
        written += 1
    return written
