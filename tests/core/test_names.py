import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address, address_of, contact, node_id

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
HOSTS = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True) | st.ip_addresses().map(str)


@given(NAMES)
def test_a_name_of_allowed_letters_is_taken_and_is_no_address(name):
    assert node_id(name) == name
    assert address_of(node_id(name)) is None


@pytest.mark.parametrize(
    "text", ["", "-n1", ".n1", "n 1", "n:1", "n1\n", "n/1", "é", "n" * 65, "n1\x00", "~n"]
)
def test_a_name_that_could_be_mistaken_is_refused(text):
    with pytest.raises(BadOption) as caught:
        node_id(text)
    assert repr(text) in str(caught.value)


@given(HOSTS, st.integers(0, 65_535))
def test_an_address_is_read_as_it_is_written(host, port):
    address = Address(host, port)
    assert Address.parse(str(address)) == address
    assert address_of(contact(address)) == address


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":4410", "host:65536", "host:-1", "::1:4410", "[::1]", "a b:1",
             "host:1\n", "host:٣", "[x]:1", "host:4410/"]
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example(text):
    with pytest.raises(BadOption, match=r"127\.0\.0\.1:4410"):
        Address.parse(text, "--listen")
