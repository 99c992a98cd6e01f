"""What to say when a stage fails: one sentence for people, all the rest in a log file."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from snowmelt.core.errors import OutcomeUnknown, SnowmeltError, StateError
from snowmelt.store.folder import private

_RAISED: Final = re.compile(r"(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<said>.*))?")
_OWN: Final = re.compile(r"snowmelt\.core\.errors\.(?P<kind>\w+): (?P<said>.*)")
_GATEWAY: Final = "An error occurred while calling"
_JAVA: Final = re.compile(r"^: [\w.$]+(: |$)")
_PREFIX: Final = re.compile(r"\[[A-Z_.]+\] (Query .* terminated with exception: )?")
_UNSAID: Final = "Spark gives no cause; one of its processes may have been killed"
_SLOW_START: Final = "Python worker failed to connect back"
_LENGTH_MAX: Final = 400


class StageFailed(SnowmeltError):
    """A stage of a pipeline could not go on; the message names it, the cause and the log."""


def cause_of(text: str) -> str:
    r"""The cause of a failure in one line, out of the many that Spark prints.

    >>> cause_of('''[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
    ... Traceback (most recent call last):
    ...   File "worker.py", line 3, in fit
    ...     raise ValueError("no track")
    ... ValueError: no track
    ...
    ... \tat org.apache.spark.api.python.PythonRunner.handle(PythonRunner.scala:572)
    ... ''')
    'ValueError: no track'
    >>> cause_of("[PYTHON_DATA_SOURCE_ERROR] x: snowmelt.core.errors.NoSuchQueue: no queue 'rwa'")
    "NoSuchQueue: no queue 'rwa'"
    >>> cause_of("[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: XXKST")
    'Spark gives no cause; one of its processes may have been killed'
    >>> cause_of("[UNRESOLVED_COLUMN] There is no column `pt`. SQLSTATE: 42703;\n'Project ['pt]")
    'There is no column `pt`.'
    """
    own = _OWN.search(text)  # the source and the sink send no stack along with their errors
    if own:
        return f"{own['kind']}: {own['said']}"[:_LENGTH_MAX]
    raised = list(_raised(text.splitlines()))
    if raised:
        return raised[-1][:_LENGTH_MAX]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_GATEWAY)]
    first = _PREFIX.sub("", _JAVA.sub("", lines[0])) if lines else ""
    told = first.partition(" SQLSTATE:")[0].removeprefix("SQLSTATE:").strip()
    return told[:_LENGTH_MAX] if " " in told else _UNSAID


def _raised(lines: Iterable[str]) -> Iterable[str]:
    """The line that ends each Python stack: the exception, by its own name and words."""
    inside = False
    for line in lines:
        if "Traceback (most recent call last):" in line:
            inside = True
        elif inside and line and not line[0].isspace():
            inside = False
            found = _RAISED.fullmatch(line.rstrip())
            if found:
                kind = found["kind"].rpartition(".")[2]
                yield f"{kind}: {found['said']}" if found["said"] else kind


def will_pass(text: str) -> bool:
    """Whether a failure is of the kind that goes away by itself: nobody was there to answer.

    Spark gives a Python that it starts ten seconds, which a machine at work may not have.

    >>> will_pass("Unavailable: n2 has no current view"), will_pass("ValueError: no track")
    (True, False)
    >>> will_pass("Python worker failed to connect back.")
    True
    """
    if text.startswith(_SLOW_START):
        return True
    passing: list[type[SnowmeltError]] = [StateError, *StateError.__subclasses__(), OutcomeUnknown]
    return any(text.startswith(f"{kind.__name__}:") for kind in passing)


def failed(stage: str, cause: str, whole: str, log: Path) -> StageFailed:
    """The error to raise, when all that is known has been written into the log."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with private(log) as file:
            file.write(f"{datetime.now(UTC).isoformat()} stage {stage} failed\n{whole}\n".encode())
    except OSError as error:
        return StageFailed(f"stage {stage} failed: {cause} (no log: {error})")
    return StageFailed(f"stage {stage} failed: {cause} (all of it: {log})")
