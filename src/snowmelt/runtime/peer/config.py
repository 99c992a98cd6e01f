"""What one process of a pool needs to be reached by others, and to reach them."""

from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address, NodeId
from snowmelt.runtime.credentials import Credentials, is_everywhere
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.wire.greeting import KnownCluster

ANYWHERE: Final = Address("127.0.0.1", 0)


class PeerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one process needs to be reached by others, and to reach them."""

    name: NodeId
    key: bytes = b""
    """What the name is made of, for nodes."""
    contacts: tuple[NodeId, ...] = ()
    """The nodes that a person named."""
    cluster: str = "snowmelt"
    credentials: Credentials = Credentials()
    known: KnownCluster = msgspec.field(default_factory=KnownCluster)
    listen: Address = ANYWHERE
    advertise: Address | None = None
    """What others are told; None for where it listens, port 0 for the port it listens on."""
    limits: PeerLimits = PeerLimits()

    def checked(self) -> "PeerConfig":
        """Itself; raises `BadOption` for an address that may not be listened on.

        Off loopback a token is needed, and with TLS a certificate and its key. Who only dials
        needs neither file: it listens on loopback, as it does when nothing else is said.

        >>> PeerConfig(name=NodeId("c-1"), listen=Address("0.0.0.0", 0)).checked()
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: listen is '0.0.0.0:0'; allowed: an address on loopback...
        """
        if is_loopback(self.listen.host):
            return self
        shown = self.credentials
        missing = [] if shown.token else ["a token"]
        if shown.encrypted:
            files = {"certificate": shown.certificate, "key": shown.key}
            missing += [f"{option}=FILE in the URL" for option, given in files.items() if not given]
        if missing:
            allowed = "an address on loopback, or give " + " and ".join(missing)
            raise BadOption("listen", str(self.listen), allowed)
        if self.advertise is None and is_everywhere(self.listen.host):
            allowed = (
                f"host:port by which others reach this process, since it listens on {self.listen}"
            )
            raise BadOption("advertise", None, allowed)
        return self

    def told(self, listening: Address) -> Address:
        """What others are told when it listens there."""
        told = self.advertise or listening
        return told if told.port else Address(told.host, listening.port)
