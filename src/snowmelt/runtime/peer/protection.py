"""TLS between the processes of a pool: when, and with what.

With TLS credentials every link is TLS, but for one whose two ends are both on loopback, or near:
nothing of that leaves the machine, so it stays plain, and a pool on one machine needs no
certificates. Each side looks at the connection itself, so both come to the same answer.

Who listens shows its certificate; who dials shows one when it has one. Any certificate of the
cluster's authority is good, for anything: that a process belongs here, and under which name, is
said by the proof of the token, which goes inside the TLS. The listener's certificate is part of
that proof (as `tls-server-end-point` of RFC 5929 is), so that somebody who has a certificate but no
token can't stand in between and pass the proofs on.
"""

import ipaddress
import re
import socket
import ssl
from time import monotonic

from snowmelt.core.errors import HandshakeError
from snowmelt.runtime import near
from snowmelt.runtime.credentials import Credentials, channel_of


class Protection:
    """The TLS of one process; without an authority there is none, and all links are plain."""

    def __init__(self, credentials: Credentials) -> None:
        self._client = credentials.client_context()
        self._server: ssl.SSLContext | None = None
        self.shown = b""
        """The digest of this process' own certificate."""
        if credentials.encrypted and credentials.certificate is not None:
            self._server = credentials.server_context()
            self.shown = credentials.shown

    def wrap_accepted(self, stream: socket.socket) -> ssl.SSLSocket | None:
        """A stream whose handshake is still to be done; None when it stays plain."""
        if self._client is None or stays_here(stream):
            return None
        if self._server is None:  # it came to loopback from another address of this machine
            raise HandshakeError("this process has no certificate to show")
        return self._server.wrap_socket(stream, server_side=True, do_handshake_on_connect=False)

    def wrap_dialled(self, stream: socket.socket, deadline: float) -> tuple[socket.socket, bytes]:
        """The stream to speak on, its handshake done, and what proofs on it are bound to."""
        if self._client is None or stays_here(stream):
            return stream, b""
        stream.settimeout(max(0.001, deadline - monotonic()))
        tls = self._client.wrap_socket(stream)
        return tls, channel_of(tls)


def stays_here(stream: socket.socket) -> bool:
    """Whether both ends of a connection are near, or on loopback."""
    return near.is_near(stream) or all(
        _on_loopback(end[0]) for end in (stream.getsockname(), stream.getpeername())
    )


def why(error: OSError) -> str:
    """In words what went wrong with TLS.

    >>> why(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"))
    'wrong version number'
    >>> why(TimeoutError("_ssl.c:989: The handshake operation timed out"))
    'The handshake operation timed out'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good here: {error.verify_message}"
    text = str(error.args[-1]) if error.args else type(error).__name__
    return re.sub(r"^\[[^]]*\] |^_ssl\.c:\d+: | \(_ssl\.c:\d+\)$", "", text)


def _on_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)  # who listens on :: sees those of IPv4 so
    return (mapped or address).is_loopback
