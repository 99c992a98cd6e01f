"""The smallest family: it answers, and it remembers. Read it to learn how a family is written.

Theory of operation
-------------------
One machine, `EchoNode`, alone on its node; it talks to clients only. It is what a node is measured
with (an answer at once, an answer after a flush), and what shows the simulated world, one process
and a real network to be the same.

1. `Echo(body)` is answered with `Echoed(body)` at once.
2. `Remember(name, body)` is written to the disk and answered with `Remembered(name)` only after the
   flush (`core.node`, rule of order). A name keeps its first body: a second `Remember` of the same
   name and body is a retry and gets the same answer; with another body it is declined.
3. Names are small and come back when the node starts; bodies are bulk and stay on the disk.
4. `Recall(name)` loads the body and is answered with `Recalled`. A body that the disk damaged is
   said to be damaged; it is never served and never called unknown. A retry of its `Remember` brings
   the same body again, and so mends it.
5. When the disk is full, `Remember` is declined with `DiskFull`, and nothing of it is kept. All
   names and bodies together are bounded, since they are never erased; beyond, it is `Full`.
"""

from snowmelt.protocols.echo.messages import (
    MESSAGES,
    Echo,
    Echoed,
    Recall,
    Recalled,
    Remember,
    Remembered,
)
from snowmelt.protocols.echo.node import EchoNode

__all__ = [
    "MESSAGES",
    "Echo",
    "EchoNode",
    "Echoed",
    "Recall",
    "Recalled",
    "Remember",
    "Remembered",
]
