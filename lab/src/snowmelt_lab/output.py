"""Where results are kept: a table as CSV, and a check of file names before the work begins."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from snowmelt.core.errors import BadOption

PICTURES = (".png", ".svg", ".pdf")


def checked_file(option: str, path: Path | None, endings: Sequence[str] = ()) -> None:
    """Refuses a file that could not be written, before minutes of work are spent on it.

    >>> checked_file("--figure", Path("loss.gif"), PICTURES)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --figure is 'loss.gif'; allowed: a file ending in .png, .svg...
    """
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise BadOption(option, str(path), "a file ending in " + ", ".join(endings))
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BadOption(option, str(path), "a file in a folder that exists")


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    r"""Writes a table, its head first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(Path(folder, "one.csv"), ["hours", "loss"], [(1, 0.25)])
    ...     Path(folder, "one.csv").read_text()
    'hours,loss\n1,0.25\n'
    """
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(head)
            writer.writerows(rows)
    except OSError as error:
        raise BadOption("the table", str(path), f"a file that can be written ({error})") from error
