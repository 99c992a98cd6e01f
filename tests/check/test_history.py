import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.errors import SnowmeltError
from snowmelt_world.check import BadHistory, Ended, History, Kind, Operation

GOOD = '{"process":"p","kind":"put","values":["a"],"called":1,"returned":2}'

names = st.text(st.sampled_from('aé\n"\\\0\u2028😀'), max_size=5)
values = st.one_of(names, st.integers(-(2**63), 2**63 - 1))


@st.composite
def operations(draw):
    ended = draw(st.sampled_from(Ended))
    called = draw(st.integers(0, 2**62))
    returned = draw(st.integers(called, 2**63 - 1))
    kind = draw(st.sampled_from(Kind))
    position = draw(st.integers(0, 2**63 - 1))
    if ended is Ended.UNKNOWN:
        returned = draw(st.sampled_from([None, returned]))
    if kind is not Kind.VIEW:
        position = draw(st.sampled_from([None, position]))
    carried = tuple(draw(st.lists(values, max_size=4)))
    return Operation(draw(names), kind, carried, called, returned, ended, position)


@given(st.lists(operations(), max_size=5))
def test_what_is_written_is_read_again(drawn):
    history = History.of(drawn)
    assert History.read(history.lines()) == history
    text = b"".join(history.lines()).decode()
    assert History.read(text.split("\n")) == history


def test_empty_lines_are_passed_over():
    assert len(History.read(["", GOOD, "  \n", GOOD.encode()])) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "truncated"),
        (GOOD[:-9], "truncated"),
        ("[]", "Expected `object`"),
        ("NaN", "invalid character"),
        (b"\xff\xfe", "malformed"),
        (GOOD.replace('"p"', '"\xe9"').encode("latin-1"), "utf-8"),
        (GOOD.replace('"put"', '"push"'), "Invalid enum value 'push'"),
        (GOOD.replace('["a"]', '"a"'), "$.values"),
        (GOOD.replace('["a"]', "[1.5]"), "$.values[0]"),
        (GOOD.replace('["a"]', "[" * 100_000), "$.values"),
        (GOOD.replace('"called":1', '"called":-1'), "$.called"),
        (GOOD.replace('"returned":2', '"returned":' + "9" * 400), "$.returned"),
        (GOOD.replace('"returned":2', '"returned":0'), "returned at 0, before it was called at 1"),
        (GOOD.replace('"returned":2', '"returned":null'), "must have returned"),
        (GOOD.replace('"put"', '"view"'), "needs its epoch"),
        (GOOD.replace('"kind"', '"colour":1,"kind"'), "unknown field `colour`"),
        ("\ud800", "surrogates"),
    ],
)
def test_a_bad_line_is_named_with_the_reason(line, reason):
    with pytest.raises(BadHistory) as caught:
        History.read([GOOD, "", line])
    assert str(caught.value).startswith("line 3 of the history")
    assert reason in str(caught.value)
    assert isinstance(caught.value, SnowmeltError)
    assert caught.value.exit_code == 2


@given(st.binary(max_size=60))
def test_no_bytes_do_worse_than_a_bad_history(line):
    with contextlib.suppress(BadHistory):
        History.read([line])


def test_a_big_batch_is_told_in_short():
    assert repr(Operation("p", Kind.GET, tuple("abcdef"), 1, 2)) == (
        "p get 'a' 'b' 'c' and 3 more [1, 2]"
    )
