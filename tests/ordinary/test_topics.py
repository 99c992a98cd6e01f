"""Listeners that are interrupted: what a node told them is in their hands, or it is asked again."""

import signal
import sys
from types import FrameType
from typing import Any

import snowmelt
from snowmelt.cli.local import LocalNode
from snowmelt.client import multicast, multicast_steps
from snowmelt.protocols.multicast import following

STEPS = {module.__file__ for module in (multicast, multicast_steps, following)}


class Interrupted:
    """Sends this process a signal at the given line of a listener's own code."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __enter__(self) -> "Interrupted":
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, *_: Any) -> Any:
        if frame.f_code.co_name == "next":  # within which Python itself looks for no signal
            return None
        return self._line if frame.f_code.co_filename in STEPS else None

    def _line(self, _: FrameType, event: str, __: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self._line


def test_a_listener_that_is_interrupted_at_any_line_misses_nothing(
    node: LocalNode, name: str
) -> None:
    heard, line, done = [], 0, False
    with snowmelt.connect(node.url) as cluster:
        topic = cluster.multicast(name)
        with topic.subscribe(timeout=3) as subscription:
            while not done:
                line += 1
                topic.publish_many([b"%d" % line, b"and"])
                try:
                    with Interrupted(line) as interrupted:
                        heard.append(next(subscription).body)
                    done = interrupted.left > 0
                except KeyboardInterrupt:
                    heard.append(next(subscription).body)
                heard.append(next(subscription).body)
            assert subscription.missed == 0
    assert line > 10, "there is more than this to interrupt"
    assert heard == [body for one in range(1, line + 1) for body in (b"%d" % one, b"and")]
