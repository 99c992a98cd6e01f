"""`snowmelt lab try-pool`: a pool's producers and consumers with one command, each a real process.

What they are is in `pool_trial_part.py`. This process starts them, ends the producers when the time
is over, then the consumers when nothing is left, and adds up their reports.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from snowmelt.cli.local import end_on_sigterm
from snowmelt.cli.node import read_token
from snowmelt.cli.options import CLUSTER, AsJson, ClusterOptions
from snowmelt.cli.pool import reached
from snowmelt.client.connection.url import with_user
from snowmelt.core.errors import BadOption, StateError
from snowmelt.protocols.pool.settings import OBJECT_BYTES_MAX, pool_name
from snowmelt_lab.cli.pool_trial_part import PATIENCE, TrialPartResult, Work
from snowmelt_lab.pool.situation import bytes_of

Process = subprocess.Popen[bytes]


def try_pool(
    name: Annotated[
        str, typer.Argument(help="The name of a pool without members.", show_default=True)
    ] = "try",
    producers: Annotated[int, typer.Option(help="How many processes produce.")] = 3,
    consumers: Annotated[int, typer.Option(help="How many processes consume.")] = 3,
    size: Annotated[str, typer.Option(help="Size of an object: 100, 64KB, 1MB, 1MiB.")] = "1MB",
    rate: Annotated[
        float, typer.Option(help="Objects a second of each producer; 0: all it can.")
    ] = 20,
    seconds: Annotated[float, typer.Option(help="How long they produce.")] = 10,
    buffers: Annotated[int, typer.Option(help="How many objects a producer keeps.")] = 5,
    max_hops: Annotated[int, typer.Option(help="How many producers a request probes.")] = 3,
    as_json: AsJson = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Try a pool: start producers and consumers, let them work, and measure."""
    _check(producers, consumers, rate, seconds)
    work = Work(
        with_user(at.url, at.user), pool_name(name), byte_count(size), rate, buffers, max_hops
    )
    end_on_sigterm()
    console = Console(stderr=True)
    with reached(at) as cluster:
        if any(one.name == name for one in cluster.pools(timeout=at.timeout)):
            raise BadOption("name", name, "a pool without members")
        token = read_token(at.token_file)
        with _started("consume", consumers, work, token) as eaters:
            with console.status(f"{producers} produce, {consumers} consume …"):
                made = _produced(producers, work, token, seconds)
            got = [_told(one) for one in eaters]
    told = summary(made, got)
    print(json.dumps(told) if as_json else sentence(told))
    if told["lost"]:
        raise StateError(f"{told['lost']} objects were not taken")


def byte_count(text: str) -> int:
    """The size of an object, as a person writes it.

    >>> byte_count("64KiB"), byte_count("0")
    (65536, 0)
    >>> byte_count("1GB")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --size is '1GB'; allowed: 0 to 256MiB
    """
    count = bytes_of("--size", text)
    if count > OBJECT_BYTES_MAX:
        raise BadOption("--size", text, "0 to 256MiB")
    return count


def summary(made: list[TrialPartResult], got: list[TrialPartResult]) -> dict[str, float]:
    """What a trial comes to; times are of the consumers, from the first object to the last."""
    objects = sum(one.count for one in got)
    size = sum(one.size for one in got)
    busy = [one for one in got if one.count]
    span = max(one.last for one in busy) - min(one.first for one in busy) if busy else 0.0
    per_second = 1 / span if span else 0.0
    return {
        "put": sum(one.count for one in made),
        "got": objects,
        "lost": sum(one.count for one in made) - objects,
        "objects_per_second": round(objects * per_second, 1),
        "megabytes_per_second": round(size / 1e6 * per_second, 1),
        "probes_per_object": round(sum(one.hops for one in got) / objects, 2) if objects else 0.0,
        "mean_wait_ms": round(sum(one.waited for one in got) / objects * 1e3, 3)
        if objects
        else 0.0,
        "blocked_seconds": round(sum(one.waited for one in made), 3),
    }


def sentence(told: dict[str, float]) -> str:
    """A trial's summary for a person."""
    return (
        f"{told['got']:,} objects: {told['objects_per_second']:,} a second, "
        f"{told['megabytes_per_second']:,} MB/s\n"
        f"{told['probes_per_object']} probes an object; a consumer waited "
        f"{told['mean_wait_ms']:,} ms for one\n"
        f"producers waited for room for {told['blocked_seconds']} s in all"
    )


def _check(producers: int, consumers: int, rate: float, seconds: float) -> None:
    for option, value in (("--producers", producers), ("--consumers", consumers)):
        if not 1 <= value <= 100:
            raise BadOption(option, value, "1 to 100")
    if not 0 <= rate <= 1e6:
        raise BadOption("--rate", rate, "0 to 1000000 objects a second")
    if not 0 < seconds <= 3600:
        raise BadOption("--seconds", seconds, "more than 0, at most 3600")


def _produced(count: int, work: Work, token: str, seconds: float) -> list[TrialPartResult]:
    with _started("produce", count, work, token) as makers:
        sleep(seconds)
        for one in makers:
            assert one.stdin is not None
            one.stdin.close()
        return [_told(one) for one in makers]


@contextmanager
def _started(role: str, count: int, work: Work, token: str) -> Iterator[list[Process]]:
    """So many processes, each ready; whatever happens, they end with this."""
    command = [sys.executable, "-m", "snowmelt_lab.cli.pool_trial_part", role]
    command.append(msgspec.json.encode(work).decode())
    environment = os.environ | ({"SNOWMELT_TOKEN": token} if token else {})
    pipe = subprocess.PIPE
    processes: list[Process] = []
    try:
        while len(processes) < count:
            one = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
            processes.append(one)
        for one in processes:
            _line(one)
        yield processes
    finally:
        for one in processes:
            one.kill()
            with one:  # waits, and closes its pipes
                pass


def _line(process: Process) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise StateError("a process of the trial ended by itself; its last words are above")
    return line


def _told(process: Process) -> TrialPartResult:
    """Asks a process to end, and hears what it has done."""
    assert process.stdin is not None
    if not process.stdin.closed:
        process.stdin.close()
    told = msgspec.json.decode(_line(process), type=TrialPartResult)
    process.wait(PATIENCE)
    return told
