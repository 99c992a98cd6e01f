"""`snowmelt pipeline run` and `snowmelt pipeline show`: stages joined by queues.

Spark is imported only when a command needs it: the program starts in a moment, and works where
there is no Spark.
"""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from snowmelt.cli.local import end_on_sigterm
from snowmelt.cli.node import read_token
from snowmelt.cli.options import DEFAULT_URL, TOKEN, URL, USER, AsJson
from snowmelt.cli.pipeline_show import shown_on, standing_object, summary_table
from snowmelt.client.connection.url import with_user
from snowmelt.core.errors import BadOption, CallerError

if TYPE_CHECKING:
    from snowmelt.spark.pipeline import Pipeline

FILE = typer.Argument(help="A Python file with a Pipeline, or with a function pipeline().")
EXTRA: Final = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "numpy", "matplotlib"})
INTERRUPTED: Final = 130

pipeline = typer.Typer(help="Stages joined by queues.", no_args_is_help=True)


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
