"""Another version of Snowmelt in an environment of its own, from a wheel.

A release's wheel is taken as it is. While there is none, one is built from this tree under another
number, as `make dist` builds it. What it depends on is borrowed from the Python that runs this.
"""

import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Final

TREE: Final = Path(__file__).resolve().parents[2]
NUMBER: Final = "0.0.9"
"""Lower than any that will be released."""
PARTS: Final = ("pyproject.toml", "README.md", "LICENSE", "src", "examples/ufmulti")
"""What the wheel is made of."""
PLACES: Final = {
    "pyproject.toml": "version = ",
    "src/snowmelt/core/version.py": "VERSION: Final = ",
}
"""Where the number stands, and what stands before it."""


class NotBuilt(Exception):
    """pip could not do it; this is what it said."""


def built(folder: Path) -> Path:
    """A wheel of this tree with another number."""
    copied = folder / "tree"
    for part in PARTS:
        source, target = TREE / part, copied / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for place, before in PLACES.items():
        text = (copied / place).read_text()
        own = next(line for line in text.splitlines() if line.startswith(before))
        (copied / place).write_text(text.replace(own, f'{before}"{NUMBER}"'))
    here = ["--no-build-isolation"] if find_spec("hatchling") else []  # else pip fetches it
    _pip("wheel", "--no-deps", *here, "--wheel-dir", str(folder), str(copied))
    shutil.rmtree(copied)
    (wheel,) = folder.glob("snowmelt-*.whl")
    return wheel


def installed(wheel: Path, folder: Path) -> tuple[str, str]:
    """The Python that has it, and its version."""
    venv.create(folder, with_pip=False)
    python = str(folder / "bin" / "python")
    _pip("--python", python, "install", "--no-deps", "--no-index", str(wheel))
    (own,) = folder.glob("lib/python*/site-packages")
    borrowed = [one for one in sys.path if Path(one).name == "site-packages"]
    (own / "borrowed.pth").write_text("\n".join(borrowed))  # they stand behind its own
    return python, _said(python, "-m", "snowmelt", "--version").strip()


def _pip(*words: str) -> None:
    _said(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


def _said(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=TREE.anchor
    )
    if done.returncode:
        raise NotBuilt(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout
