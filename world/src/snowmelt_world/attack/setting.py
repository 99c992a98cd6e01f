"""What one attack is to do, and to whom."""

from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from snowmelt.core.shown import repr_without

OWN_PREFIX: Final = "attack."
"""Of all that attackers make; nothing else is theirs."""
HONEST_PREFIX: Final = "honest."
GUEST_PREFIX: Final = "guest."


class Kind(StrEnum):
    """What attackers do, for a while each."""

    STRANGERS = "strangers"
    """Who has no token: half words, garbage, silence, slow reading, many connections, guesses."""
    ROLES = "roles"
    """Each message, said by one to whom it does not belong."""
    FIELDS = "fields"
    """Each call of a client with each field at its extremes."""
    COSTS = "costs"
    """One client takes all of one thing that it can get."""
    MEMBERS = "members"
    """A node of the cluster, which the attack owns, says what no node would."""


ALL: Final = tuple(Kind)


class Target(msgspec.Struct, frozen=True):
    """A node that is attacked."""

    name: str
    host: str
    port: int
    pid: int = 0
    """Of its process, where the attack has started it."""
    folder: str = ""
    http: int = 0
    """The port of its pages, if it shows any."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Identity(msgspec.Struct, frozen=True):
    """Who somebody is to the cluster: a user and its secret, or one token for all."""

    user: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "secret")


class AttackSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One attack; its processes are given it as JSON."""

    url: str
    targets: tuple[Target, ...]
    kinds: tuple[Kind, ...]
    seconds: float
    """How long each kind is tried."""
    inputs: int
    """After so many of a kind it is over before its time; 0: only time counts."""
    seed: int
    attackers: int
    """Processes."""
    only: tuple[str, ...] = ()
    """Of what costs, just these things; all if there are none."""
    place: str
    calm: float
    """Seconds for which the honest work alone, first."""
    honest: Identity = Identity()
    """Who works, and who looks at nodes: it may do everything."""
    attacker: Identity = Identity()
    """Who has rights to names of attackers, where the cluster knows users."""
    guest: Identity = Identity()
    """Who has no right to any of these names; as the attacker, where one token is for all."""
    node: Identity = Identity()
    """What nodes show each other."""
    cluster: str = "snowmelt"
    member: str = ""
    """The node whose name the attack owns; none where the cluster is another's."""
    member_url: str = ""
    memory_mib: int
    disk_mib: int
    turn_ms: float
    rate_share: float
    answer_s: float

    @property
    def folder(self) -> Path:
        return Path(self.place)

    @property
    def knows_users(self) -> bool:
        """Whether the cluster tells one who has a right from one who has none."""
        return bool(self.guest.user)
