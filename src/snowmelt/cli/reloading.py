"""`snowmelt worker --reload`: the same command as a child, begun anew when a file has changed.

For development: it looks at all `.py` files under a folder, twice a second.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from snowmelt.core.errors import BadOption

CHILD: Final = "SNOWMELT_RELOADED"
"""Is set in the child."""
FILES_MAX: Final = 20_000
_LOOK: Final = 0.5


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
