"""The newest value of one baton that a node knows, and whether the root has it: rules 14 and 19."""

from typing import Any, Final

from snowmelt.core.node import Send
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.messages import Backup, Stored, Version
from snowmelt.protocols.baton.retired_names import NameRecord
from snowmelt.protocols.baton.settings import TOPICS

AGAIN_BEATS: Final = 4
NUMBERS: Final = 2**60


class Newest:
    """Of one name at one node; where etcd decides the root is told until it has it."""

    def __init__(self, name: str, here: NodeContext, line: NameRecord) -> None:
        self.value = line.value
        self.version = line.version
        self._name = name
        self._here = here
        self._kept = line.version
        self._told: tuple[int, Version] = 0, line.version
        """What the root was told last, and the number that its answer has."""
        self._beats = 0

    def learn(self, version: Version, value: bytes) -> None:
        if version > self.version:
            self.version, self.value = version, value

    @property
    def goes_to_root(self) -> bool:
        """Whether it is told at all: the root does without the values of topics (rule 17)."""
        return not self._name.startswith(TOPICS)

    @property
    def owed(self) -> bool:
        """Whether the root has not said yet that this one is kept."""
        return self._here.etcd and self.goes_to_root and self.version > self._kept

    def beat(self) -> list[Send[Any]]:
        """Tells the root again, now and then."""
        self._beats -= 1
        return self.tell() if self.owed and self._beats < 0 else []

    def tell(self) -> list[Send[Any]]:
        """Tells the root, but nobody waits for it."""
        if not self.goes_to_root:
            return []
        here, root = self._here, self._here.root
        if not here.etcd:
            return [Send(root, Backup(self._name, self.version, self.value))]
        self._beats = AGAIN_BEATS
        self._told = here.chance.randrange(1, NUMBERS), self.version
        number, version = self._told
        word = Backup(self._name, version, self.value, number, behind=True, epoch=here.epoch)
        return [Send(root, word)]

    def answered(self, stored: Stored) -> bool:
        """The root's answer; whether it was to this.

        A baton that was made anew since begins without this value: it is not told again.
        """
        number, version = self._told
        if stored.number != number:
            return False
        if not stored.error or stored.error == "BatonLost":
            self.kept(version)
        return True

    def kept(self, version: Version) -> None:
        self._kept = max(self._kept, version)
