"""An environment for each library, since they don't agree on a version of redis-py."""

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers.comparison import Missing
from benchmarks.peers.processes import said_by

FOLDER: Final = Path("bench-results/jobs")


@dataclass(frozen=True)
class Environment:
    """Where a library is installed; with no name it is this program's own."""

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Of its programs."""
        if not self.name:
            return Path(sys.executable).parent
        return (FOLDER / self.name / "bin").absolute()

    def check(self) -> None:
        """Raises `Missing` when it is not there."""
        if not (self.folder / "python").exists():
            raise Missing(
                f"{self.name} is not installed: snowmelt bench jobs --install; or python -m venv "
                f"{FOLDER / self.name} && {self.folder / 'pip'} install "
                f"{' '.join(map(repr, self.requirements))}"
            )

    def paths(self) -> list[str]:
        """Where else its programs look for modules: only in this program's own environment."""
        return [] if self.name else [one for one in sys.path if one]

    def version(self) -> str:
        """Of the library."""
        if not self.name:
            return ""
        code = f"from importlib.metadata import version; print(version({self.name!r}))"
        return f"{self.name} {said_by(str(self.folder / 'python'), '-c', code)}"

    def make(self) -> None:
        """Takes a minute."""
        venv.create(self.folder.parent, with_pip=True)
        command = [str(self.folder / "pip"), "install", "--quiet", *self.requirements]
        subprocess.run([*command, "--disable-pip-version-check"], check=True, timeout=600)


def install(folder: Path) -> str:
    """Makes those that are not there."""
    from benchmarks.peers.jobs.libraries import LIBRARIES  # noqa: PLC0415 - it imports this module

    del folder
    made = []
    for library in LIBRARIES.values():
        try:
            library.environment.check()
        except Missing:
            library.environment.make()
            made.append(library.environment.name)
    return f"installed in {FOLDER}: {', '.join(made) or 'nothing, all are there'}"
