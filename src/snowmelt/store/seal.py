"""The seal on a record: a checksum over its content and its address.

A sealed value is four bytes of CRC-32C, least first, and then the value. The checksum runs over

    the store's identity (8 bytes), the length of the key (2), the key, the value

so that it fails not only when a bit of the value flips or its end is torn off, but also when the
record stands under a key it was not written under, or in another store's file. The length keeps a
byte from wandering between key and value unseen. CRC-32C finds every error of up to three bits in
values of any size used here, and lets one in four thousand million of the wilder ones pass; it
guards against machines that fail, not against people who forge.
"""

from typing import Final

from google_crc32c import extend
from google_crc32c import value as begun

SEAL_BYTES: Final = 4


def seal(identity: bytes, key: bytes, value: bytes) -> bytes:
    r"""The value as it goes to the disk.

    >>> unseal(b"store-01", b"view", seal(b"store-01", b"view", b"7"))
    b'7'
    """
    return _checksum(identity, key, value) + value


def unseal(identity: bytes, key: bytes, sealed: bytes) -> bytes | None:
    """The value that was sealed for this place, or None when these bytes are not that.

    >>> sealed = seal(b"store-01", b"view", b"7")
    >>> unseal(b"store-01", b"weiv", sealed) is None
    True
    >>> unseal(b"store-02", b"view", sealed) is None
    True
    >>> unseal(b"store-01", b"view", sealed[:-1]) is None
    True
    """
    value = sealed[SEAL_BYTES:]
    if sealed[:SEAL_BYTES] != _checksum(identity, key, value):
        return None
    return value


def _checksum(identity: bytes, key: bytes, value: bytes) -> bytes:
    address = begun(identity + len(key).to_bytes(2, "little") + key)
    checksum: int = extend(address, value)
    return checksum.to_bytes(SEAL_BYTES, "little")
