"""What stands beside a body, when it comes from a stranger."""

import msgspec
import pytest

from snowmelt.core.headers import headers_in

ENCODE = msgspec.msgpack.encode


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        ENCODE([1]),
        ENCODE({1: "a"}),
        ENCODE({b"a": "a"}),
        ENCODE({"a": 1}),
        ENCODE({"a": None}),
        ENCODE({"a": ["b"]}),
        ENCODE({"a": msgspec.msgpack.Ext(3, b"x")}),
        b"\x81\xa1a" + b"\x91" * 60_000,
        ENCODE({"a": "b"})[:-1],
    ],
)
def test_what_is_no_map_from_text_to_text_or_bytes_is_a_value_error(packed: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # msgspec's are of this kind
        headers_in(packed)
