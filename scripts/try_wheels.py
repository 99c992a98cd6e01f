"""Installs the wheels in `dist` into a bare environment and uses them as a stranger would.

`make dist` calls it last. Dependencies come from wherever pip takes them.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

DIST = Path(__file__).parents[1] / "dist"

PROGRAM = """
import snowmelt

with snowmelt.open("./orders.snow") as cluster:
    orders = cluster.fifo("orders")
    orders.put_many([b"one", b"two"])
    assert [item.body for item in orders.get_many(2)] == [b"one", b"two"]
"""


def main() -> None:
    """Three wheels, one after the other."""
    with tempfile.TemporaryDirectory(prefix="snowmelt-wheels-") as folder:
        room = Path(folder)
        venv.create(room, with_pip=True)
        _install(room, "snowmelt")
        _run(room, "python", "-c", PROGRAM)
        version = _run(room, "snowmelt", "--version").strip()
        missing = _run(room, "snowmelt", "sim", expected=2)
        assert "pip install snowmelt-world" in missing, missing
        _install(room, "snowmelt-world")
        _run(room, "snowmelt", "sim", "--protocol", "queue", "--seed", "1")
        _install(room, "snowmelt-lab")
        _run(room, "snowmelt", "lab", "durability", "--json")
        print(f"snowmelt {version}: three wheels installed and used")


def _install(room: Path, name: str) -> None:
    (wheel,) = DIST.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    _run(room, "python", "-m", "pip", "install", "--quiet", str(wheel))


def _run(room: Path, program: str, *words: str, expected: int = 0) -> str:
    done = subprocess.run(
        [room / "bin" / program, *words],
        cwd=room,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != expected:
        sys.exit(f"{program} {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
