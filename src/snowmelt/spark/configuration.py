"""What a person has said to Spark itself: in its file of defaults, and in its variables.

Spark reads all of this by itself, so nothing here is handed on. It is read to know what has been
said: a session that made itself a local one would silently pass over `spark.master` in the file.
From the strongest to the weakest, as Spark has it:

1. `PYSPARK_SUBMIT_ARGS`, as `--master URL`, `--remote URL` and `--conf NAME=VALUE`;
2. `SPARK_REMOTE` and `SPARK_MASTER`;
3. the file: `--properties-file`, else `spark-defaults.conf` in `SPARK_CONF_DIR`, else in the folder
   `conf` of the Spark that runs.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyspark

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
FILE: Final = "spark-defaults.conf"
_OPTIONS: Final = {
    "--master": MASTER,
    "--remote": REMOTE,
    "--deploy-mode": "spark.submit.deployMode",
}
_LINE: Final = re.compile(r"\s*(?P<name>[^\s=:#!][^\s=:]*)\s*[=:\s]\s*(?P<value>.*?)\s*")


def said() -> dict[str, str]:
    """Spark's settings as they have been said, each by the strongest who says it."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    file = next((value for name, value in _options(words) if name == "--properties-file"), None)
    found = settings_in(Path(file) if file else _folder() / FILE)
    for variable, setting in (("SPARK_MASTER", MASTER), ("SPARK_REMOTE", REMOTE)):
        if os.environ.get(variable):
            found[setting] = os.environ[variable]
    return found | pairs_in(words)


def pairs_in(words: Sequence[str]) -> dict[str, str]:
    """The settings that options of `spark-submit` say.

    >>> pairs_in(["--master", "yarn", "--deploy-mode=cluster", "--conf", "spark.x=1"])
    {'spark.master': 'yarn', 'spark.submit.deployMode': 'cluster', 'spark.x': '1'}
    """
    found: dict[str, str] = {}
    for name, value in _options(words):
        if name in _OPTIONS:
            found[_OPTIONS[name]] = value
        elif name in ("--conf", "-c") and "=" in value:
            key, _, rest = value.partition("=")
            found[key] = rest
    return found


def settings_in(file: Path) -> dict[str, str]:
    """What a file of defaults says: a name and a value a line; none where there is no file."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return dict(_pairs(lines))


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Names and values of lines.

    >>> list(_pairs(["# a remark", "spark.master  spark://there:7077", "spark.cores.max=4", ""]))
    [('spark.master', 'spark://there:7077'), ('spark.cores.max', '4')]
    """
    for line in lines:
        found = _LINE.fullmatch(line)
        if found:
            yield found["name"], found["value"]


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, written with a blank or with `=`."""
    for place, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name.startswith("--") and sign:
            yield name, value
        elif word.startswith("-") and place + 1 < len(words):
            yield word, words[place + 1]


def _folder() -> Path:
    said_folder = os.environ.get("SPARK_CONF_DIR")
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return Path(said_folder) if said_folder else Path(home, "conf")
