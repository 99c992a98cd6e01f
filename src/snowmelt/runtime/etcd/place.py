"""Where an etcd is, under which prefix a cluster's records are, and how to be let in."""

import ssl
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address, plain_name
from snowmelt.core.shown import repr_without

SCHEME: Final = "etcd"
ALLOWED: Final = (
    "disk, or etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?authority=FILE&certificate=FILE&key=FILE]"
)
OPTIONS: Final = ("authority", "certificate", "key")
ENDPOINTS_MAX: Final = 9
OPTION: Final = "--coordinator"


class EtcdPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A URL, read; and what is not said in one."""

    endpoints: tuple[Address, ...]
    prefix: str
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "password")

    @classmethod
    def read(cls, url: str, user: str = "", password: str = "") -> "EtcdPlace":
        """Reads and checks a URL.

        >>> place = EtcdPlace.read("etcd://127.0.0.1:2379,127.0.0.1:2381/orders")
        >>> [str(one) for one in place.endpoints], place.prefix
        (['127.0.0.1:2379', '127.0.0.1:2381'], '/orders/')
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise BadOption(OPTION, url, ALLOWED) from None
        if parts.scheme != SCHEME or not parts.netloc or "@" in parts.netloc or parts.fragment:
            raise BadOption(OPTION, url, ALLOWED)
        endpoints = tuple(Address.parse(one, OPTION) for one in parts.netloc.split(","))
        if len(endpoints) > ENDPOINTS_MAX:
            raise BadOption(OPTION, url, f"at most {ENDPOINTS_MAX} endpoints")
        names = parts.path.strip("/").split("/")
        if names == [""]:
            raise BadOption(OPTION, url, "a prefix of its own for each cluster: …:2379/PREFIX")
        prefix = "/".join(plain_name("the prefix in etcd", name) for name in names)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name in options:
            if name not in OPTIONS:
                raise BadOption(f"option of {OPTION}", name, ", ".join(OPTIONS))
        if bool(user) != bool(password):
            raise BadOption("--etcd-user", user, "given with --etcd-password-file: both or none")
        files = {name: Path(value) for name, value in options.items()}
        place = cls(
            endpoints=endpoints, prefix=f"/{prefix}/", user=user, password=password, **files
        )
        place._check(url)
        return place

    @property
    def url(self) -> str:
        """The place as a person names it, without what is secret."""
        ends = ",".join(str(one) for one in self.endpoints)
        return f"etcd://{ends}{self.prefix.rstrip('/')}"

    def context(self) -> ssl.SSLContext | None:
        """For dialling; None without TLS."""
        if self.authority is None:
            return None
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            files = f"{self.authority}, {self.certificate}, {self.key}"
            allowed = f"readable PEM files that fit ({error})"
            raise BadOption("TLS files of etcd", files, allowed) from error
        return context

    def _check(self, url: str) -> None:
        if self.authority is None and (self.certificate or self.key):
            raise BadOption(OPTION, url, "authority=FILE as well; without it there is no TLS")
        if self.authority is None and not all(is_loopback(one.host) for one in self.endpoints):
            allowed = "endpoints on loopback, or ?authority=FILE: whoever reads or changes what"
            raise BadOption(OPTION, url, f"{allowed} is there on its way decides for the cluster")
        self.context()  # files that don't read are named here, not by the first call
