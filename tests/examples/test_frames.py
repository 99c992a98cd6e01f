"""The example of cameras and workers runs as it stands, and its account is exact."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import frames.picture
import numpy as np
from frames.picture import Camera, position

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*options: str) -> tuple[int, dict[str, float], str]:
    ended = subprocess.run(
        [sys.executable, "-m", "frames", *options],
        cwd=EXAMPLES,
        env={name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    lines = re.findall(r"^ +([\d.,]+)%?  (.*)$", ended.stdout, re.MULTILINE)
    told = {words: float(number.replace(",", "")) for number, words in lines}
    return ended.returncode, told, ended.stdout + ended.stderr


def one(told: dict[str, float], words: str) -> float:
    (number,) = [value for key, value in told.items() if words in key]
    return number


def test_every_frame_is_used_once_and_no_node_carries_any() -> None:
    options = ("--cameras", "4", "--workers", "2", "--side", "512", "--seconds", "3")
    code, told, said = run(*options, "--rate", "8")
    assert code == 0, said
    assert one(told, "used by 2 workers") == one(told, "frames made") > 40
    assert (one(told, "lost"), one(told, "used twice")) == (0, 0)
    assert sum(value for key, value in told.items() if "MB went through" in key) < 0.5


def test_bad_options_are_refused() -> None:
    code, _, said = run("--workers", "1", "--kill")
    assert code == 2
    assert "another worker with --kill" in said


def test_the_spot_is_found_where_it_is() -> None:
    assert doctest.testmod(frames.picture).failed == 0
    camera = Camera(1, 400)
    for number in range(0, 400, 7):
        x, y = position(camera.frame(number))
        assert abs(np.hypot(x, y) - 0.3 * 400) < 1.5
        assert abs(np.arctan2(y, x) - camera.angle(number)) < 0.01
