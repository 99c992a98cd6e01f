"""`snowmelt worker`: a function of yours works off queues, until SIGTERM or Ctrl-C.

With `--reload` it is the same command as a child, begun anew when a file has changed: for
development. It looks at all `.py` files under a folder, twice a second.
"""

import asyncio
import importlib
import inspect
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer

import snowmelt.aio
from snowmelt.cli.node import LEVELS, read_token
from snowmelt.cli.options import HERE, PlaceOptions
from snowmelt.client.worker.face import Worker
from snowmelt.client.worker.options import GRACE, WEIGHT_MAX, is_async
from snowmelt.core.errors import BadOption, NoSuchQueue
from snowmelt.core.names import queue_name
from snowmelt.runtime import logs

LINE: Final = "%(asctime)s %(levelname)s %(message)s"
FORMATS: Final = ("text", "json")
HANDLER: Final = typer.Argument(help="MODULE:FUNCTION; it is called with each item.")
QUEUES: Final = typer.Option(
    "--queue", help="NAME or NAME=WEIGHT; repeat for more.", show_default=False
)
CHILD: Final = "SNOWMELT_RELOADED"
"""Is set in the child."""
FILES_MAX: Final = 20_000
_LOOK: Final = 0.5


def worker(
    handler: Annotated[str, HANDLER],
    queue: Annotated[list[str], QUEUES],
    threads: Annotated[
        int, typer.Option(help="Items at once: threads, or tasks of an async function.")
    ] = 1,
    processes: Annotated[
        int, typer.Option(help="Processes, each with its threads; 0: only this one.")
    ] = 0,
    limit: Annotated[
        float | None, typer.Option(help="Seconds the function may take for one item.")
    ] = None,
    retry: Annotated[
        str | None, typer.Option(help="MODULE:NAME of a snowmelt.Retry, or of a map from errors.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option(help="Codec of item.value: text, json, msgpack, arrow.")
    ] = None,
    prefetch: Annotated[
        int | None, typer.Option(help="Items leased at once; default: as many as work allows.")
    ] = None,
    grace: Annotated[float, typer.Option(help="Seconds a stop waits for running items.")] = GRACE,
    idle: Annotated[
        float | None, typer.Option(help="End after so many seconds without an item.")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a .py file here changes.")
    ] = False,
    log: Annotated[str, typer.Option(help="Log level: " + ", ".join(LEVELS))] = "info",
    log_format: Annotated[str, typer.Option(help=" or ".join(FORMATS))] = "text",
    at: PlaceOptions = HERE,
) -> None:
    """Call a function of yours with each item of these queues, and acknowledge what it has done."""
    weights = dict(read_weight(word) for word in queue)
    if log not in LEVELS:
        raise BadOption("--log", log, ", ".join(LEVELS))
    if log_format not in FORMATS:
        raise BadOption("--log-format", log_format, " or ".join(FORMATS))
    if reload and reloaded(Path.cwd()):
        return
    sys.path.insert(0, str(Path.cwd()))  # as python -m has it
    function = named_object("handler", handler)
    options: dict[str, Any] = {"limit": limit, "grace": grace}
    options |= {} if prefetch is None else {"prefetch": prefetch}
    options |= {} if retry is None else {"retry": named_object("--retry", retry)}
    _set_up_logs(log, log_format)
    if is_async(function):
        if processes:
            raise BadOption("--processes", processes, "0 for an async function: start more workers")
        options["tasks"] = threads
        asyncio.run(_work_async(function, weights, options, codec, idle, at))
        return
    options |= {"threads": threads} | ({"processes": processes} if processes else {})
    with at.open() as cluster:
        check_there(weights, cluster.queues(timeout=at.timeout))
        queues = {
            cluster.queue(name, codec=codec, timeout=at.timeout): weight
            for name, weight in weights.items()
        }
        Worker(queues, function, **options).run(timeout=idle)


async def _work_async(
    function: Callable[[Any], Any],
    weights: dict[str, int],
    options: dict[str, Any],
    codec: str | None,
    idle: float | None,
    at: PlaceOptions,
) -> None:
    token = read_token(at.token_file) or None
    opened = (
        snowmelt.aio.connect(at.url, token=token, user=at.user or None)
        if at.data is None
        else snowmelt.aio.open(at.data, timeout=at.timeout)
    )
    async with opened as cluster:
        check_there(weights, await cluster.queues(timeout=at.timeout))
        queues = {
            await cluster.queue(name, codec=codec, timeout=at.timeout): weight
            for name, weight in weights.items()
        }
        await snowmelt.aio.Worker(queues, function, **options).run(timeout=idle)


def read_weight(word: str) -> tuple[str, int]:
    """A queue and its weight.

    >>> read_weight("orders"), read_weight("orders=3")
    (('orders', 1), ('orders', 3))
    >>> read_weight("orders=many")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --queue is 'orders=many'; allowed: NAME, or NAME=WEIGHT with...
    """
    name, equals, weight = word.partition("=")
    if not equals:
        return name, 1
    if not (weight.isascii() and weight.isdigit() and 1 <= int(weight) <= WEIGHT_MAX):
        raise BadOption("--queue", word, f"NAME, or NAME=WEIGHT with a weight of 1 to {WEIGHT_MAX}")
    return name, int(weight)


def check_there(wanted: dict[str, int], names: list[str]) -> None:
    """A worker makes no queue: nobody knows which order it is to have."""
    for name in wanted:
        if queue_name(name.partition("/")[0]) not in names:
            raise NoSuchQueue(
                f"there is no queue {name!r}: put something into it, or say: snowmelt create {name}"
            )


def named_object(option: str, word: str) -> Any:
    """What is called MODULE:NAME, or MODULE:CLASS.NAME.

    >>> named_object("handler", "json:loads").__name__
    'loads'
    >>> named_object("handler", "json.loads")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: handler is 'json.loads'; allowed: MODULE:NAME, as in shop:ship
    >>> named_object("handler", "no_such.module:ship")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: handler is 'no_such.module:ship'; allowed: a module that can...
    """
    module, colon, name = word.partition(":")
    if not (module and colon and name):
        raise BadOption(option, word, "MODULE:NAME, as in shop:ship")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # one that the module itself imports: its traceback says where
        allowed = (
            f"a module that can be imported; there is no {error.name!r} in {Path.cwd()} nor among "
            "the installed packages: go to the folder that it is in, or set PYTHONPATH"
        )
        raise BadOption(option, word, allowed) from error
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [one for one, made in vars(found).items() if inspect.isfunction(made)]
            some = ", ".join(functions[:10]) or "no function"
            raise BadOption(option, word, f"a name in {module}, which has {some}")
        found = getattr(found, part)
    return found


def _set_up_logs(level: str, form: str) -> None:
    """Ours go to standard error; so do the module's own, if it has set up none itself."""
    if form == "json":
        logs.set_up(level)
        logging.basicConfig(level=level.upper(), handlers=logs.LOG.handlers)
        return
    logging.basicConfig(level=level.upper(), format=LINE)
    logs.LOG.setLevel(level.upper())


def reloaded(folder: Path) -> bool:
    """Runs this command in children until it ends; False in a child, which is to do the work."""
    if os.environ.pop(CHILD, ""):
        return False
    ReloadedChild(folder).run()
    return True


class ReloadedChild:
    """A child, and the files it is made of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self._ends = False

    def run(self) -> None:
        """Until a signal comes, or the command ends well; one that failed waits for a change."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        seen = stamps(self._folder)
        self._begin()
        while not self._ended():
            time.sleep(_LOOK)
            now = stamps(self._folder)
            if now != seen and not self._ends:
                changed = sorted(str(one) for one, _ in seen.items() ^ now.items())
                _say(f"{changed[0]} has changed: the worker begins anew")
                seen = now
                self._stop()
                self._begin()
        raise SystemExit(self._child.returncode if self._child is not None else 0)

    def _begin(self) -> None:
        command = [sys.executable, "-m", "snowmelt", *sys.argv[1:]]
        self._child = subprocess.Popen(command, env=os.environ | {CHILD: "1"})

    def _stop(self) -> None:
        """Warmly; a second signal of a person ends it at once."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.wait()

    def _ended(self) -> bool:
        code = None if self._child is None else self._child.poll()
        if code is None:
            return False
        if code and not self._ends:
            _say(f"the worker ended with {code}; it begins anew when a file changes")
            self._child = None
            return False
        return self._ends or code == 0

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C reaches the child by itself, where both have one terminal; twice does no harm."""
        del frame
        if self._child is None:
            raise SystemExit(128 + number)
        if number == signal.SIGTERM or not sys.stdin.isatty():
            self._child.send_signal(number)
        self._ends = True


def stamps(folder: Path) -> dict[Path, int]:
    """When each Python file under a folder was written, but for packages that are installed."""
    found: dict[Path, int] = {}
    for file in _files(folder):
        try:
            found[file] = file.stat().st_mtime_ns
        except OSError:  # it is gone by now
            continue
        if len(found) > FILES_MAX:
            allowed = f"a folder with at most {FILES_MAX} .py files below it; {folder} has more"
            raise BadOption("--reload", True, allowed)
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        here = Path(path)
        folders[:] = [
            one
            for one in folders
            if not one.startswith(".")
            and one not in ("__pycache__", "node_modules")
            and not (here / one / "pyvenv.cfg").exists()
        ]
        yield from (here / name for name in names if name.endswith(".py"))


def _say(what: str) -> None:
    print(f"snowmelt: {what}", file=sys.stderr, flush=True)
