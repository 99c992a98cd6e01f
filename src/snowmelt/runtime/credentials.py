"""Who may talk to whom: TLS, users and secrets.

Between nodes TLS is mutual, and a certificate is good for the node whose id stands in it (as a
DNS name), whatever host it runs on. Clients check the node's certificate in the same way. All of
them prove that they know a user's secret (`wire.greeting`); the cluster's one token is that of a
user without a name. TLS and secrets are off only on loopback; a node that should listen anywhere
else without them does not start. In a network that the cluster has for itself, TLS may be left out
by name, the secrets not.
"""

import hashlib
import ipaddress
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.core.errors import AccessDenied, BadOption, Unavailable
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address, NodeId
from snowmelt.core.shown import repr_without
from snowmelt.core.users import ANYBODY, User
from snowmelt.wire.greeting import KnownCluster, Role, Speaker

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a process shows, and what it trusts. All empty is good for loopback alone."""

    token: str = ""
    """The secret that it proves to know."""
    token_file: Path | None = None
    """Of nodes: where that stands, to be read again."""
    user: str = ""
    """Whose secret that is; nobody's where one token is all there is."""
    users: Path | None = None
    """Of nodes: the file that says whom they let in, in place of the token."""
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False
    """Whether it may listen off loopback without TLS."""

    def __repr__(self) -> str:
        return repr_without(self, "token")

    @property
    def encrypted(self) -> bool:
        return self.authority is not None

    def speaker(
        self,
        cluster: str,
        name: NodeId,
        role: Role,
        known: KnownCluster | None = None,
        key: bytes = b"",
    ) -> Speaker:
        """Who this process is where it dials."""
        user = User(self.user, ()) if self.user else ANYBODY
        return Speaker(
            cluster=cluster,
            name=name,
            role=role,
            user=user,
            secret=self.token,
            key=key,
            known=known or KnownCluster(),
        )

    @property
    def shown(self) -> bytes:
        """The digest of the certificate that it shows to whoever dials."""
        if not self.encrypted or self.certificate is None:
            return b""
        return certificate_digest(self.certificate)

    def check_listen(self, address: Address) -> None:
        """Refuses to listen in the open without protection, or anywhere with half of TLS."""
        tls = {
            "--tls-authority": self.authority,
            "--tls-certificate": self.certificate,
            "--tls-key": self.key,
        }
        missing = [option for option, given in tls.items() if not given]
        if missing and len(missing) < len(tls):
            allowed = "given, since other files of TLS are: all three or none"
            raise BadOption(missing[0], None, allowed)
        if self.plain and not missing:
            raise BadOption("--no-tls", "given", "left out, since files of TLS are given")
        if is_loopback(address.host):
            return
        if self.plain:
            missing = []
        if not (self.token or self.users):
            missing.append("--token-file or --users")
        if missing:
            allowed = "an address on loopback, or give " + ", ".join(missing)
            raise BadOption("--listen", str(address), allowed)

    def check_dial(self, address: Address) -> None:
        """Refuses to go in clear to an address that another process named."""
        if not (self.encrypted or self.plain or is_loopback(address.host)):
            raise Unavailable(
                f"{address} was named by a node, and nothing is said to it without TLS; give files "
                "of TLS, or choose ?tls=no or --no-tls"
            )

    def check_http(self, address: Address, token: str) -> None:
        """Refuses to show metrics in the open without protection."""
        protected = self.encrypted or self.plain
        if is_loopback(address.host) or (protected and token):
            return
        missing = [] if protected else ["--tls-authority", "--tls-certificate", "--tls-key"]
        missing += [] if token else ["--http-token-file"]
        allowed = "an address on loopback, or give " + ", ".join(missing)
        raise BadOption("--http", str(address), allowed)

    def web_context(self, address: Address) -> ssl.SSLContext | None:
        """For pages: nobody who asks for one has a certificate. On loopback they are plain."""
        plain = is_loopback(address.host) or not self.encrypted
        return None if plain else self._context(ssl.Purpose.CLIENT_AUTH)

    def server_context(self) -> ssl.SSLContext | None:
        """For accepting: a node must show its certificate, a client may."""
        if not self.encrypted:
            return None
        context = self._context(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.num_tickets = 0  # nothing is resumed, see `check_certificate`
        return context

    def client_context(self) -> ssl.SSLContext | None:
        """For dialling: the chain is checked here, the name in it once the node has said it."""
        if not self.encrypted:
            return None
        context = self._context(ssl.Purpose.SERVER_AUTH)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(purpose, cafile=self.authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.options |= ssl.OP_NO_RENEGOTIATION
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            named = (self.authority, self.certificate, self.key)
            files = ", ".join(str(one) for one in named if one is not None)
            raise BadOption("TLS files", files, f"readable PEM files that fit ({error})") from error
        return context


def is_everywhere(host: str) -> bool:
    """Whether it stands for all addresses of a machine; no other can be reached by it.

    >>> is_everywhere("0.0.0.0"), is_everywhere("::"), is_everywhere("10.0.0.5")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def certificate_digest(path: Path) -> bytes:
    """Of the first certificate in a file, which is the one that is shown."""
    found = _CERTIFICATE.search(path.read_text(encoding="latin-1"))
    if found is None:
        raise BadOption("certificate", str(path), "a PEM file with a certificate")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).digest()


def channel_of(tls: ssl.SSLObject | ssl.SSLSocket | None, shown: bytes = b"") -> bytes:
    """What both sides of a connection know of it: whose certificate the one who listens shows.

    So somebody who has another certificate of the authority can't stand in between and pass proofs
    on (as `tls-server-end-point` of RFC 5929). `shown` is that of this process, where it listens.
    """
    if tls is None:
        return b""
    if tls.server_side:
        return shown
    certificate = tls.getpeercert(binary_form=True)
    assert certificate is not None, "the context requires a certificate"
    return hashlib.sha256(certificate).digest()


def check_certificate(tls: ssl.SSLObject | ssl.SSLSocket | None, name: NodeId) -> None:
    """Raises when the other side's certificate is missing or not good for this id.

    What was resumed has the certificate of before, whose authority may be gone by now.
    """
    if tls is None:
        return
    if tls.session_reused:
        raise AccessDenied(f"{name} has resumed a connection; a node shows its certificate anew")
    names = names_of(tls.getpeercert() or {})
    if name not in names:
        shown = ", ".join(names) or "nobody"
        raise AccessDenied(f"the certificate is good for {shown}, not for {name}")


def names_of(certificate: Mapping[str, Any]) -> list[str]:
    """The ids that a certificate is good for: its DNS names."""
    names = certificate.get("subjectAltName", ())
    return [str(entry[1]) for entry in names if entry[0] == "DNS"]
