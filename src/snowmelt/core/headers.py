"""What goes with an item beside its body: a map from text to text or bytes, as msgpack."""

from typing import Any, Final, TypeAlias

import msgspec

Headers: TypeAlias = dict[str, str | bytes]
"""Decoders know no such union: they take any value, and `fit` looks what it is."""

_DECODE: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode


def headers_in(packed: bytes | msgspec.Raw) -> Headers:
    r"""Headers as they travel; raises `ValueError` when they are none.

    >>> headers_in(b"\x82\xa1a\xa1b\xa1c\xc4\x01\xff")
    {'a': 'b', 'c': b'\xff'}
    >>> headers_in(b"\x81\xa1a\x07")
    Traceback (most recent call last):
    ValueError: the header 'a' is neither text nor bytes
    """
    try:
        return fit(_DECODE(packed))
    except RecursionError:
        raise ValueError("headers that are nested") from None


def fit(found: dict[str, Any]) -> Headers:
    """The same, once all values are known to be text or bytes; else raises `ValueError`."""
    for name, value in found.items():
        if not isinstance(value, str | bytes):
            told = f"the header {name!r} is neither text nor bytes"
            raise ValueError(told)  # noqa: TRY004  # as a decoder says it
    return found
