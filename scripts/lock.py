"""Writes `requirements.lock`: the versions of `constraints.txt` with a hash of each archive.

    python scripts/lock.py

pip finds the archives, for the machine that this runs on, and installs nothing.
"""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
HEAD: Final = """\
# The versions of constraints.txt, each with the hash of its archive for {machine}.
# Made by scripts/lock.py; SECURITY.md says how to install by it.
"""


def named(name: str) -> str:
    """A project's name as all spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def found() -> list[dict[str, Any]]:
    """What pip would install."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = ["install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        asked += ["--report", str(report), "--requirement", str(ROOT / "constraints.txt")]
        subprocess.run([sys.executable, "-m", "pip", *asked], check=True)
        told: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return told


def main() -> None:
    """Asks pip, and writes the file."""
    lines = []
    for one in sorted(found(), key=lambda one: named(one["metadata"]["name"])):
        name, version = named(one["metadata"]["name"]), one["metadata"]["version"]
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    implementation, machine = platform.python_implementation(), platform.machine()
    version = ".".join(platform.python_version_tuple()[:2])
    head = HEAD.format(machine=f"{implementation} {version} on {platform.system()} {machine}")
    (ROOT / "requirements.lock").write_text(head + "".join(lines))


if __name__ == "__main__":
    main()
