"""What a process of clients is asked to do: each line on its standard input is the next step.

The first is to stop working, the second to leave. When standard input ends without one, whoever
started the process is gone, and it ends at once.
"""

import os
from threading import Event, Thread
from typing import Final

STDIN: Final = 0


class StdinWords:
    """What this process was asked so far."""

    def __init__(self) -> None:
        self.stop = Event()
        self.leave = Event()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        steps = [self.stop, self.leave]
        while steps:
            lines = os.read(STDIN, 100)
            if not lines:
                os._exit(1)
            for _ in lines:
                if steps:
                    steps.pop(0).set()
