"""`snowmelt pipeline run` and `snowmelt pipeline show`: stages joined by queues.

Spark is imported only when a command needs it: the program starts in a moment, and works where
there is no Spark.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from snowmelt.cli.tables import listing, styled

if TYPE_CHECKING:
    from snowmelt.spark.standing import Show, Standing
import json
import os
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snowmelt.cli.local import end_on_sigterm
from snowmelt.cli.node import read_token
from snowmelt.cli.options import DEFAULT_URL, TOKEN, URL, USER, AsJson
from snowmelt.client.connection.url import with_user
from snowmelt.core.errors import BadOption, CallerError

if TYPE_CHECKING:
    from snowmelt.spark.pipeline import Pipeline

FILE = typer.Argument(help="A Python file with a Pipeline, or with a function pipeline().")
EXTRA: Final = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "numpy", "matplotlib"})
INTERRUPTED: Final = 130

pipeline = typer.Typer(help="Stages joined by queues.", no_args_is_help=True)
LINE_SECONDS: Final = 5.0
BAR_WIDTH: Final = 20
WORDS: Final = ("stage", "", "progress")
STYLES: Final = {"running": "green", "done": "bold green", "failed": "red", "elsewhere": "dim"}


@pipeline.command()
def run(
    file: Annotated[Path, FILE],
    drain: Annotated[bool, typer.Option("--drain", help="End when nothing is left.")] = False,
    checkpoints: Annotated[
        str, typer.Option(help="Folder, or URL, where each stage remembers how far it is.")
    ] = "checkpoints",
    stage: Annotated[
        list[str] | None,
        typer.Option(help="Run only this stage; repeat for more. Others run elsewhere."),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master; default: from Spark's configuration.")
    ] = None,
    remote: Annotated[
        str | None, typer.Option(help="A Spark Connect server, as sc://HOST:PORT.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark, NAME=VALUE; repeat for more.")
    ] = None,
    as_json: AsJson = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    token_file: Annotated[Path | None, TOKEN] = None,
    user: Annotated[str, USER] = "",
) -> None:
    """Run the stages of a pipeline until Ctrl-C, or until all is drained."""
    token = read_token(token_file) or None
    end_on_sigterm()  # until the pipeline runs; it then stops in order
    found = _loaded(file)
    console = Console(stderr=as_json)
    with ExitStack() as stack:
        with console.status(f"starting {found.name} …"):
            running = stack.enter_context(
                found.start(
                    with_user(url, user),
                    drain=drain,
                    checkpoints=checkpoints,
                    stages=stage,
                    token=token,
                    master=master,
                    remote=remote,
                    conf=settings_of(conf or []),
                )
            )
        with shown_on(console) as show:
            standings = running.wait(show)
    drained = all(one.state.value in ("done", "elsewhere") for one in standings)
    if as_json:
        told = {"pipeline": found.name, "drained": drained}
        print(json.dumps(told | {"stages": [standing_object(one) for one in standings]}))
    else:
        console.print(summary_table(found.name, standings))
    if drain and not drained:
        raise typer.Exit(INTERRUPTED)


@pipeline.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def submit(
    context: typer.Context,
    file: Annotated[Path, FILE],
    spark: Annotated[
        str, typer.Option(help="Options of spark-submit's, in quotes: '--master yarn …'.")
    ] = "",
) -> None:
    """Run a pipeline by spark-submit. All options but --spark are those of `run`."""
    with spark_extra("snowmelt pipeline"):
        from snowmelt.spark.submitting import submission  # noqa: PLC0415

    app = Path(__file__).parent / "submission" / "app.py"
    made = submission(app, file, shlex.split(spark), context.args)
    os.execve(made.program, made.words, made.environment)  # noqa: S606  # it is to be this program


@pipeline.command()
def show(file: Annotated[Path, FILE]) -> None:
    """Draw which stage reads which queue and fills which."""
    print(_loaded(file))


def settings_of(words: Sequence[str]) -> dict[str, str]:
    """Spark's settings as they are written behind `--conf`.

    >>> settings_of(["spark.cores.max=4"])
    {'spark.cores.max': '4'}
    >>> settings_of(["spark.cores.max"])
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --conf is 'spark.cores.max'; allowed: NAME=VALUE, the name...
    """
    settings: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.startswith("spark."):
            raise BadOption("--conf", word, "NAME=VALUE, the name one of Spark's: spark.…")
        settings[name] = value
    return settings


def _loaded(file: Path) -> "Pipeline":
    with spark_extra("snowmelt pipeline"):
        from snowmelt.spark.shipping import load  # noqa: PLC0415  starts fast, also without Spark

    return load(file)


@contextmanager
def spark_extra(command: str, package: str = "snowmelt[spark]") -> Iterator[None]:
    """Round imports of Spark's: a missing module becomes a sentence with the way out."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA:
            raise  # a module of ours: a bug
        text = f'{command} needs {missing}: pip install "{package}"'
        raise CallerError(text) from error


@contextmanager
def shown_on(console: Console) -> Iterator["Show"]:
    """What to call with how the stages stand."""
    if not console.is_terminal:
        yield _lines(console)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda standings: live.update(live_table(standings))


def live_table(standings: Sequence["Standing"]) -> Table:
    """How the stages stand just now, a line a stage."""
    table = listing(("stage", "", "in", "out", "rate", "waiting", "held", "lag", "progress"), WORDS)
    for one in standings:
        table.add_row(
            one.stage,
            styled(one.state.value, STYLES.get(one.state.value, "yellow")),
            f"{one.taken:,}",
            _count(one.made),
            f"{one.rate:,.0f}/s",
            f"{one.backlog:,}",
            f"{one.held:,}",
            lag_text(one.lag),
            ProgressBar(one.total, one.taken, BAR_WIDTH) if one.total else "",
        )
    return table


def summary_table(name: str, standings: Sequence["Standing"]) -> Table:
    """What each stage did, a line a stage."""
    table = listing(
        ("stage", "", "in", "out", "seconds", "rate", "left"), WORDS, f"pipeline {name}"
    )
    for one in standings:
        lost = f" ({one.lost:,} lost)" if one.lost else ""
        table.add_row(
            one.stage,
            one.state.value,
            styled(f"{one.taken:,}") + styled(lost, "red"),
            _count(one.made),
            f"{one.seconds:.1f}",
            f"{one.mean_rate:,.0f}/s",
            f"{one.backlog + one.held:,}",
        )
    return table


def standing_object(one: "Standing") -> dict[str, object]:
    """How a stage stood in the end, as a JSON object."""
    return {
        "stage": one.stage,
        "state": one.state.value,
        "in": one.taken,
        "out": one.made,
        "seconds": round(one.seconds, 3),
        "rate": round(one.mean_rate, 1),
        "left": one.backlog + one.held,
        "lost": one.lost,
    }


def lag_text(lag: float | None) -> str:
    """How far behind, in a word.

    >>> [lag_text(lag) for lag in (None, 0.0, 2.34, 754.0, 90_000.0)]
    ['?', '-', '2.3 s', '13 min', '25.0 h']
    """
    match lag:
        case None:
            return "?"
        case 0:
            return "-"
        case _ if lag < 120:
            return f"{lag:.1f} s"
        case _ if lag < 7200:
            return f"{lag / 60:.0f} min"
        case _:
            return f"{lag / 3600:.1f} h"


def _lines(console: Console) -> "Show":
    """A line now and then, for a log: when it begins, every few seconds, and when a stage ends."""
    begin = time.monotonic()
    told = begin - LINE_SECONDS
    before: list[object] = []

    def line(standings: Sequence["Standing"]) -> None:
        nonlocal told, before
        now, states = time.monotonic(), [one.state for one in standings]
        if now - told < LINE_SECONDS and states == before:
            return
        told, before = now, list(states)
        text = "; ".join(_words(one) for one in standings)
        console.print(f"{now - begin:.0f} s: {text}", soft_wrap=True, highlight=False)

    return line


def _words(one: "Standing") -> str:
    told = f"{one.stage} {one.state.value}, {one.taken:,} in"
    left = one.backlog + one.held
    return f"{told} at {one.rate:,.0f}/s, {left:,} left" if left else told


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
