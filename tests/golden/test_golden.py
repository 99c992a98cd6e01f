"""Golden scripts: each a scenario named as a sentence, its whole trace the assertion.

Run with SNOWMELT_ACCEPT=1 to write the traces anew, and accept a change only if you can explain it.
"""

import os
from pathlib import Path

import pytest
from script import played

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_golden(script):
    text = script.read_text()
    now = played(text)
    if os.environ.get("SNOWMELT_ACCEPT"):
        script.write_text(now)
    assert now == text


def test_every_script_says_in_its_first_line_what_it_shows():
    assert SCRIPTS
    for script in SCRIPTS:
        first = script.read_text().splitlines()[0]
        assert first.startswith("# ")
        assert first.endswith(".")
