"""What one small item costs, in calls of functions of all kinds: ours, and those built in.

A path that is not taken should cost none. Whoever has to raise a number here says why.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import pytest

import snowmelt

TIMES = 50
FAMILY = str(Path("snowmelt", "protocols", "queue"))


def counted(do: Callable[[], object]) -> tuple[float, float]:
    """How many calls that makes mostly, and how many of them are made in the queues' machines."""
    rows = [_once(do) for _ in range(TIMES)]
    return median([whole for whole, _ in rows]), median([family for _, family in rows])


def _once(do: Callable[[], object]) -> tuple[int, int]:
    whole = family = 0

    def seen(frame: FrameType, event: str, _: Any) -> None:
        nonlocal whole, family
        if event in ("call", "c_call"):
            whole += 1
            family += FAMILY in frame.f_code.co_filename

    sys.setprofile(seen)
    do()
    sys.setprofile(None)
    return whole, family


def program(folder: str, name: str, key: str = "", setting: str = "") -> None:
    with snowmelt.open(folder) as cluster:
        orders = cluster.fifo("orders", **{setting: True} if setting else {})

        def put() -> None:
            orders.put(bytes(100), key=key or None)

        def get() -> None:
            with orders.get():
                pass

        for _ in range(3 * TIMES):
            put()
        get()
        print(*counted(put if name == "put" else get))


def told(folder: Path, *said: str) -> tuple[float, float]:
    """By a program of its own: this one has signals that each call shields itself from."""
    words = [sys.executable, __file__, str(folder), *said]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    whole, family = map(float, done.stdout.split())
    return whole, family


def test_a_put(tmp_path: Path) -> None:
    whole, family = told(tmp_path, "put")
    assert whole <= 351  # 3 of them: the block round it, which traces or does nothing
    assert family <= 136  # 8 of them stood beside the family before: its desk, its alarms


def test_a_get_and_its_acknowledgement(tmp_path: Path) -> None:
    whole, family = told(tmp_path, "get")
    assert whole <= 700  # 6 of them, likewise: a block and a link, and a block
    assert family <= 238  # 16 of them, likewise


@pytest.mark.parametrize("setting", ["", "in_order_by_key", "fair"])
def test_a_key_costs_a_put_a_tenth_at_most(tmp_path: Path, setting: str) -> None:
    plain, _ = told(tmp_path / "plain", "put")
    keyed, _ = told(tmp_path / "keyed", "put", "tenant-7", setting)
    assert keyed <= 1.1 * plain


@pytest.mark.parametrize("setting", ["in_order_by_key", "fair"])
def test_a_key_costs_a_get_a_tenth_at_most(tmp_path: Path, setting: str) -> None:
    plain, _ = told(tmp_path / "plain", "get")
    keyed, _ = told(tmp_path / "keyed", "get", "tenant-7", setting)
    assert keyed <= 1.1 * plain


if __name__ == "__main__":
    program(*sys.argv[1:])
