"""Long-lived programs of Spark's, as the tests and the chaos hold them."""

import os
import sys
from pathlib import Path

from snowmelt_world.standalone import Daemon

PROGRAM = """
import subprocess, threading
begin = lambda: print("began", subprocess.Popen(["sleep", "60"]).wait())
threading.Thread(target=begin, daemon=True).start()
while True:
    text = open("/proc/self/task/%d/children" % threading.enumerate()[-1].native_id).read()
    if text.strip():
        print("ready", text, flush=True)
        threading.Event().wait()
"""


def test_what_a_thread_of_a_program_began_is_its_child(tmp_path: Path) -> None:
    daemon = Daemon([sys.executable, "-c", PROGRAM], tmp_path / "log", r"ready \d+ ", os.environ)
    try:
        said = daemon.wait()
        assert daemon.children() == [int(said.split()[1])]
    finally:
        daemon.kill()
