"""How far a worker stage is, in a small file that is there whole or not at all."""

import fcntl
import os
from pathlib import Path
from typing import Self

import msgspec

from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.errors import BadOption, StoreBusy, StoreDamaged


class StageProgress(msgspec.Struct, frozen=True):
    """Where a stage is: done with all up to one mark, at work on what lies up to another."""

    source: str
    group: str
    done: Mark = BEGINNING
    end: Mark = BEGINNING


class StageCheckpoint:
    """A stage's place, kept in a folder that one process holds at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StageCheckpoint(Path(folder), "raw", "words.split") as memory:
    ...         memory.keep(Mark(), Mark(7, 100))
    ...     with StageCheckpoint(Path(folder), "raw", "words.split") as memory:
    ...         memory.place.end
    Mark(lease=7, count=100)
    """

    def __init__(self, folder: Path, source: str, group: str) -> None:
        self.folder = folder
        self._file = folder / "mark.json"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._hold(folder)
            self.place = self._read(StageProgress(source, group))
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process have the folder."""
        os.close(self._lock)

    def keep(self, done: Mark, end: Mark) -> None:
        """Writes the place down. When this returns it outlasts a crash of the machine."""
        place = msgspec.structs.replace(self.place, done=done, end=end)
        fresh = self._file.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(place))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.place = place

    def _hold(self, folder: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreBusy(f"another process runs the stage of {folder}") from error

    def _read(self, fresh: StageProgress) -> StageProgress:
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=StageProgress)
        except FileNotFoundError:
            return fresh
        except msgspec.DecodeError as error:
            raise StoreDamaged(f"{self._file} is no place of a stage: {error}") from error
        if (kept.source, kept.group) != (fresh.source, fresh.group):
            allowed = f"one of group {fresh.group} on queue {fresh.source}; give it its own folder"
            raise BadOption("checkpoint", f"of group {kept.group} on queue {kept.source}", allowed)
        return kept
