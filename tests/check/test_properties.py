import msgspec
import pytest

from snowmelt.core.errors import BadOption
from snowmelt_world.check import (
    PROPERTIES,
    History,
    Invalid,
    Kind,
    Operation,
    Property,
    Undecided,
    Valid,
    check_history,
    combine,
)

HISTORY = History.of([Operation("p", Kind.PUT, ("a",), 1, 2)])


def test_every_property_judges_the_empty_history():
    verdicts = check_history(History.of([]), PROPERTIES)
    assert [verdict.property for verdict in verdicts] == list(PROPERTIES)
    assert all(isinstance(verdict, Valid) for verdict in verdicts)


def test_an_unknown_property_is_the_callers_fault():
    with pytest.raises(BadOption, match="lifo"):
        check_history(HISTORY, ["fifo", "lifo"])


def test_a_check_that_breaks_has_judged_nothing(monkeypatch):
    def broken(history):
        return 1 // (len(history) - 1)

    monkeypatch.setitem(PROPERTIES, "fifo", Property(broken, "breaks"))
    broke, fine = check_history(HISTORY, ["fifo", "view_agreement"])
    assert isinstance(broke, Undecided)
    assert "ZeroDivisionError" in broke.reason
    assert isinstance(fine, Valid)


def test_the_worst_verdict_stands_for_all():
    valid, undecided = Valid("a"), Undecided("b", "why")
    invalid = Invalid("c", "because", ())
    assert combine([valid, undecided, invalid]) is invalid
    assert combine([valid, undecided, valid]) is undecided
    assert combine([valid, Valid("d")]) == Valid("a, d")


def test_a_verdict_can_be_written_as_json():
    (verdict,) = check_history(HISTORY, ["conservation"])
    written = msgspec.json.decode(msgspec.json.encode(verdict))
    assert written["verdict"] == "unknown"
    assert written["report"]["undelivered"] == 1
