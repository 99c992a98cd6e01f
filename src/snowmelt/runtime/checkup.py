"""What `snowmelt doctor` looks at on a machine: each check says one thing, and the way out.

Nothing is changed, and no check needs a node. What a node holds open meanwhile stays untouched: a
check that would need it says so.
"""

import ctypes
import os
import platform
import resource
import shutil
import socket
import ssl
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import metadata, util
from pathlib import Path
from time import perf_counter, time
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address
from snowmelt.core.users import SECRET_LENGTH_MIN
from snowmelt.core.version import VERSION
from snowmelt.runtime.accounts import node_account, read_accounts
from snowmelt.runtime.credentials import Credentials, names_of
from snowmelt.runtime.statistics import FREE_BYTES, sized
from snowmelt.store.folder import OTHERS, OWNER_NAME, others_may_look

DAY: Final = 86_400.0
RENEW_DAYS: Final = 30
"""A certificate that ends sooner should be renewed."""
FREE_SHARE: Final = 0.1
"""A disk with less of both is nearly full."""
FLUSHES: Final = 20
SLOW_FLUSH: Final = 0.02
"""Seconds; each put of a lone caller waits for one."""
OPEN_FILES: Final = 4_096
"""So many a node should be allowed: each connection is one."""
SHARED_BYTES: Final = 256 << 20
"""Pools keep large objects in shared memory; less than this is soon full."""
FLEETING: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
DISTANT: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "glusterfs"})
UNSYNCHRONIZED: Final = 5
"""What `adjtimex` answers on Linux for a clock that nobody sets."""


class Health(Enum):
    """How it is."""

    WELL = "well"
    WARNING = "warning"
    BAD = "bad"
    UNKNOWN = "not known"


class CheckResult(msgspec.Struct, frozen=True):
    """What one check found."""

    about: str
    verdict: Health
    said: str
    way_out: str = ""


def software() -> CheckResult:
    """The versions of what runs here."""
    uvloop = util.find_spec("uvloop") is not None
    names = ("msgspec", "lmdb", "uvloop") if uvloop else ("msgspec", "lmdb")
    parts = [f"snowmelt {VERSION}", f"Python {platform.python_version()}"]
    said = ", ".join([*parts, *(f"{one} {metadata.version(one)}" for one in names)])
    if uvloop:
        return CheckResult("software", Health.WELL, said)
    text = "install uvloop: a node on the loop of asyncio is slower"
    return CheckResult("software", Health.WARNING, said, text)


def secret_files(files: Mapping[str, Path | None]) -> Iterator[CheckResult]:
    """Files whose text is a secret: their owner's alone, and so is each folder above them.

    >>> list(secret_files({"--token-file": None}))
    []
    """
    for option, path in files.items():
        if path is not None:
            yield _secret_file(option, path)


def _secret_file(option: str, path: Path) -> CheckResult:
    about = f"{option} {path}"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
        above = next((one for one in path.resolve().parents if _anybody_replaces(one)), None)
    except OSError as error:
        text = f"give a file that this user can read; it is user {os.getuid()}"
        return CheckResult(about, Health.BAD, str(error.strerror), text)
    if mode & OTHERS:
        return CheckResult(about, Health.BAD, "others have rights to it", f"chmod 600 {path}")
    if above is not None:
        text = f"chmod o-w,g-w {above}"
        return CheckResult(
            about, Health.BAD, f"others can replace it: they may write {above}", text
        )
    return CheckResult(about, Health.WELL, "its owner's alone")


def token(credentials: Credentials) -> Iterator[CheckResult]:
    """Whether the one token is long enough: a stranger who can connect may guess at home.

    >>> [one.verdict.value for one in token(Credentials(token="sesame"))]
    ['warning']
    """
    length = len(credentials.token)
    if length >= SECRET_LENGTH_MIN:
        yield CheckResult("token", Health.WELL, f"{length} letters")
    elif length:
        text = "take a random one: openssl rand -base64 24"
        yield CheckResult("token", Health.WARNING, f"{length} letters can be guessed", text)


def users(credentials: Credentials) -> Iterator[CheckResult]:
    """How many users there are, and which of them nodes are."""
    if credentials.users is None:
        return
    about = f"users in {credentials.users}"
    try:
        accounts = read_accounts(credentials)
        node = node_account(credentials, accounts).user.name
    except BadOption as error:
        yield CheckResult(about, Health.BAD, str(error), "mend that line, or give what it says")
        return
    yield CheckResult(about, Health.WELL, f"{len(accounts.by_name)}, and nodes are {node}")


def _anybody_replaces(folder: Path) -> bool:
    """Whether others may remove what they don't own in it."""
    mode = folder.stat().st_mode
    return bool(mode & 0o002) and not mode & 0o1000


def data_folder(data: Path) -> Iterator[CheckResult]:
    """The rights of a node's folder, its disk, and how long a flush takes there."""
    about = f"--data {data}"
    there = next(one for one in (data, *data.resolve().parents) if one.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        text = f"chown it to user {os.getuid()}, or run as its owner"
        yield CheckResult(about, Health.BAD, f"{there} can't be written", text)
        return
    if there != data.resolve() and there != data:
        yield CheckResult(about, Health.WELL, "it will be made")
    elif others_may_look(there):
        yield CheckResult(about, Health.WARNING, "others may look into it", f"chmod 700 {data}")
    else:
        yield CheckResult(about, Health.WELL, "its owner's alone" + _holder(data))
    yield _disk(there)
    yield _flushes(there)


def _holder(data: Path) -> str:
    """Which process had it last, as its lock says."""
    try:
        process = (data / OWNER_NAME).read_text("ascii", "replace").strip()
    except OSError:
        return ""
    lives = process.isdigit() and Path(f"/proc/{process}").exists()
    return f"; process {process} has it open" if lives else ""


def _disk(folder: Path) -> CheckResult:
    about, kind = f"disk of {folder}", _kind_of_disk(folder)
    whole = shutil.disk_usage(folder)
    said = f"{sized(whole.free)} of {sized(whole.total)} are free" + (kind and f", {kind}")
    if kind in FLEETING:
        text = "give --data a folder on a disk"
        return CheckResult(about, Health.BAD, f"{said}: nothing in it outlives a restart", text)
    if kind in DISTANT:
        text = "give --data a folder on a disk of this machine; copies are on other nodes"
        return CheckResult(
            about, Health.WARNING, f"{said}: a network has to answer each flush", text
        )
    if whole.free < min(FREE_BYTES, whole.total * FREE_SHARE):
        text = "make room, or move the node: puts are refused when it is full"
        return CheckResult(about, Health.BAD, said, text)
    return CheckResult(about, Health.WELL, said)


def _kind_of_disk(folder: Path) -> str:
    """The file system's kind, as Linux knows it; nothing elsewhere."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    device = f"{os.major(folder.stat().st_dev)}:{os.minor(folder.stat().st_dev)}"
    for line in lines:
        where, _, what = line.partition(" - ")
        if where.split()[2] == device:
            return what.split()[0]
    return ""


def _flushes(folder: Path) -> CheckResult:
    about, took = f"flushes in {folder}", list[float]()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(FLUSHES):
                file.write(bytes(4096))
                file.flush()
                begin = perf_counter()
                os.fsync(file.fileno())
                took.append(perf_counter() - begin)
    except OSError as error:
        return CheckResult(about, Health.BAD, str(error.strerror), "make room, or mount it anew")
    middle = statistics.median(took)
    said = f"{middle * 1e3:.1f} ms in the middle, {max(took) * 1e3:.1f} ms at most, of {FLUSHES}"
    if middle > SLOW_FLUSH:
        text = "take a faster disk, or put many items in a call: they share a flush"
        return CheckResult(about, Health.WARNING, said, text)
    return CheckResult(about, Health.WELL, said)


def certificates(credentials: Credentials, id: str) -> Iterator[CheckResult]:  # noqa: A002
    """Whether TLS files fit each other, for whom they are good, and for how long."""
    about = f"--tls-certificate {credentials.certificate}"
    try:
        server, client = credentials.server_context(), credentials.client_context()
    except BadOption as error:
        yield CheckResult(about, Health.BAD, str(error), "give PEM files that fit each other")
        return
    if server is None or client is None:
        return
    try:
        shown = _shaken(server, client)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        text = f"have it issued anew by the authority in {credentials.authority}"
        yield CheckResult(about, Health.BAD, reason, text)
    else:
        yield _certificate(about, shown, id)
    for one in client.get_ca_certs():
        yield _lasts(f"--tls-authority {credentials.authority}", one, "it")


def _certificate(about: str, shown: dict[str, Any], id: str) -> CheckResult:  # noqa: A002
    names = names_of(shown)
    if id and id not in names:
        said = f"it is good for {', '.join(names) or 'nobody'}, not for {id}"
        text = f"have one issued with the DNS name {id}"
        return CheckResult(about, Health.BAD, said, text)
    return _lasts(about, shown, f"good for {', '.join(names)}; it")


def _lasts(about: str, shown: Mapping[str, Any], who: str) -> CheckResult:
    left = int((ssl.cert_time_to_seconds(str(shown["notAfter"])) - time()) // DAY)
    if left < 0:
        return CheckResult(about, Health.BAD, f"{who} ended {-left} days ago", "renew it now")
    if left < RENEW_DAYS:
        return CheckResult(about, Health.WARNING, f"{who} ends in {left} days", "renew it")
    return CheckResult(about, Health.WELL, f"{who} lasts {left} days")


def _shaken(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """What a node's certificate says to a node that calls it, by a handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    listens = server.wrap_bio(there, back, server_side=True)
    dials = client.wrap_bio(back, there)
    waiting = [dials, listens]
    for _ in range(10):  # of words there and back; two or three are enough
        for one in tuple(waiting):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(one)
        if not waiting:
            break
    return dials.getpeercert() or {}


def open_files(connections: int) -> CheckResult:
    """How many files, and so connections, the system lets a node have open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return CheckResult("open files", Health.WELL, "without a limit")
    said = f"{most} at most; --limit connections is {connections}"
    if most < OPEN_FILES:
        text = "raise it: LimitNOFILE=65536 of systemd, or ulimit -Hn"
        return CheckResult("open files", Health.WARNING, said, text)
    return CheckResult("open files", Health.WELL, said)


def shared_memory(folder: Path = Path("/dev/shm")) -> CheckResult:  # noqa: S108 - it is only looked at
    """The room for large objects of pools between processes of this machine."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return CheckResult("shared memory", Health.UNKNOWN, f"there is no {folder}")
    if free < SHARED_BYTES:
        text = "give the container more: --shm-size of Docker; pools use sockets until then"
        return CheckResult("shared memory", Health.WARNING, f"{sized(free)} are free", text)
    return CheckResult("shared memory", Health.WELL, f"{sized(free)} are free")


def clock() -> CheckResult:
    """Whether something keeps this machine's clock right, as Linux knows it."""
    try:
        told = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return CheckResult("clock", Health.UNKNOWN, "this system does not say who sets it")
    if told == UNSYNCHRONIZED:
        text = "run chrony or systemd-timesyncd: delays and schedules go by it"
        return CheckResult("clock", Health.WARNING, "nobody keeps it right", text)
    if told < 0:
        return CheckResult("clock", Health.UNKNOWN, "this system does not say who sets it")
    return CheckResult("clock", Health.WELL, "it is kept right")


def listening(address: Address, credentials: Credentials) -> CheckResult:
    """Whether a node could listen there."""
    about = f"--listen {address}"
    try:
        credentials.check_listen(address)
    except BadOption as error:
        return CheckResult(about, Health.BAD, str(error), "give the files, or listen on 127.0.0.1")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((address.host, address.port))
        except OSError as error:
            text = "stop what listens there, or give another; a node that runs has it rightly"
            return CheckResult(about, Health.WARNING, str(error.strerror), text)
    where = "this machine alone" if is_loopback(address.host) else "others"
    return CheckResult(about, Health.WELL, f"it is free; {where} can reach it")
