"""The stamp of a store: which version wrote it, and who it is.

It is a text file of its own, so that it can be read by eye, and before any engine is let near the
records. It is written once, as the last step of making a store: where there is a stamp, the making
was finished.

    snowmelt store 2
    identity 3fb2a90c11d4e67a
    checksum 9a01c2d3
"""

import os
import re
import secrets
from pathlib import Path
from typing import Final

import google_crc32c
import msgspec

from snowmelt.core.errors import StoreDamaged, StoreVersion
from snowmelt.store.folder import INSTEAD, flush_folder

# The upgrade rule. VERSION names everything about the folder that a reader must know: the files,
# the engine and its format, the layout of a sealed record. What a machine keeps inside its values
# is that machine's own business and has a version of its own.
#
# - Whoever changes any of this raises VERSION by one, in the same change, and adds a function that
#   turns the version before into the new one. A version reads itself and the one before, so people
#   upgrade one release at a time and no code for old forms piles up.
# - An upgrade writes the new records into a new file beside the old, flushes it, and only then puts
#   the new stamp in the place of the old by one rename. That rename is the moment of upgrade: a
#   crash before it leaves the old store whole, a crash after it leaves the new. The old file is
#   removed last. The identity stays.
# - There is no way down. A store stamped with a higher number is refused and not touched; the way
#   back is to empty this node and let the others fill it again.
# - Version 2 has a log beside its records, see `log.py`; that of version 1 is made empty.
VERSION: Final = 2
READABLE: Final = (1, 2)

STAMP_NAME: Final = "stamp"
_FORM: Final = re.compile(
    rb"snowmelt store (\d{1,9})\nidentity ([0-9a-f]{16})\nchecksum ([0-9a-f]{8})\n"
)


class Stamp(msgspec.Struct, frozen=True):
    version: int
    identity: bytes


def new_stamp() -> Stamp:
    """A stamp for a store that is being made, with an identity nobody else has."""
    return Stamp(VERSION, secrets.token_bytes(8))


def encode(stamp: Stamp) -> bytes:
    r"""The stamp as text.

    >>> encode(Stamp(1, b"store-01"))
    b'snowmelt store 1\nidentity 73746f72652d3031\nchecksum 45178fc8\n'
    """
    text = b"snowmelt store %d\nidentity %b\n" % (stamp.version, stamp.identity.hex().encode())
    return text + b"checksum %08x\n" % google_crc32c.value(text)


def decode(text: bytes, folder: Path) -> Stamp:
    """The stamp in this text; the folder is for the error's sentence.

    >>> decode(encode(Stamp(1, b"store-01")), Path("n1")).identity
    b'store-01'
    >>> decode(encode(Stamp(9, b"store-01")), Path("n1"))
    Traceback (most recent call last):
    snowmelt.core.errors.StoreVersion: the store in n1 has version 9; this program reads 1, 2. Run the release of snowmelt that wrote it, or a later one
    """  # noqa: E501 - the error is one line
    form = _FORM.fullmatch(text)
    if form is None or b"%08x" % google_crc32c.value(text[: form.start(3) - 9]) != form[3]:
        raise StoreDamaged(
            f"the stamp of the store in {folder} is damaged, so its records can't be told from "
            f"others: {INSTEAD}"
        )
    stamp = Stamp(int(form[1]), bytes.fromhex(form[2].decode()))
    if stamp.version not in READABLE:
        raise StoreVersion(
            f"the store in {folder} has version {stamp.version}; this program reads "
            f"{', '.join(map(str, READABLE))}. Run the release of snowmelt that wrote it, "
            "or a later one"
        )
    return stamp


def read_stamp(folder: Path) -> Stamp | None:
    """The stamp of this folder, None where no store was made."""
    try:
        text = (folder / STAMP_NAME).read_bytes()
    except FileNotFoundError:
        return None
    return decode(text, folder)


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Stamps the folder: after a crash the stamp is there whole, or not at all."""
    fresh = folder / (STAMP_NAME + ".new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(encode(stamp))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / STAMP_NAME)
    flush_folder(folder)
