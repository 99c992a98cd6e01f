"""Where a server keeps its data: on the disk, or in memory that looks like one."""

import shutil
import tempfile
from pathlib import Path
from typing import Final, Literal

from benchmarks.peers.comparison import Missing

Place = Literal["disk", "memory"]

MEMORY: Final = Path("/dev/shm")


class Data:
    """A folder in that place, gone with the server."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.folder: Path | None = None

    def make(self, folder: Path) -> Path:
        """The folder, which is within this one when it is on the disk."""
        if self.place == "memory" and not MEMORY.is_dir():
            raise Missing(f"there is no {MEMORY} here")
        parent = folder if self.place == "disk" else MEMORY
        self.folder = Path(tempfile.mkdtemp(prefix="baton-", dir=parent))
        return self.folder

    def remove(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


WRITES: Final = {"disk": "flushed to disk with each grant", "memory": "the disk is memory"}
