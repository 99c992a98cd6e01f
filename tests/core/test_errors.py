"""The errors' page: each says whose fault it is, whether it is definite, how a command ends."""

import inspect
import queue

import pytest

from snowmelt.core import errors
from snowmelt.core.errors import (
    BadOption,
    Empty,
    Full,
    NoSuchQueue,
    OutcomeUnknown,
    QueueDeleted,
    QueueMoved,
    SequenceTooOld,
    SnowmeltError,
)

ALL = [
    one
    for _, one in sorted(inspect.getmembers(errors, inspect.isclass))
    if one.__module__ == errors.__name__
]


def test_every_error_is_one_of_ours():
    assert len(ALL) > 15
    assert all(issubclass(one, SnowmeltError) for one in ALL)


@pytest.mark.parametrize("error", ALL)
def test_every_error_has_an_exit_code_a_docstring_and_says_whether_it_is_definite(error):
    assert type(error.exit_code) is int
    assert error.exit_code in {*range(1, 10), 13}
    assert type(error.definite) is bool
    assert error.__dict__.get("__doc__", "").strip().endswith(".") or error is SnowmeltError
    assert error.__doc__


def test_only_a_time_that_ran_out_and_a_number_too_old_to_know_leave_it_open():
    assert {one for one in ALL if not one.definite} == {
        OutcomeUnknown,
        QueueDeleted,
        QueueMoved,
        SequenceTooOld,
    }


def test_each_kind_of_blame_has_its_own_exit_code():
    kinds = [one for one in ALL if one.__base__ is SnowmeltError]
    codes = [one.exit_code for one in kinds]
    assert len(set(codes)) == len(kinds)
    assert 1 not in codes


def test_errors_are_also_what_python_calls_them():
    assert issubclass(OutcomeUnknown, TimeoutError)
    assert issubclass(BadOption, ValueError)
    assert issubclass(Empty, queue.Empty)
    assert issubclass(Full, queue.Full)
    assert issubclass(NoSuchQueue, LookupError)


def test_a_bad_option_names_the_option_the_value_and_what_is_allowed():
    error = BadOption("--nodes", "many", "1 to 99")
    assert str(error) == "--nodes is 'many'; allowed: 1 to 99"
    assert (error.option, error.value, error.allowed) == ("--nodes", "many", "1 to 99")
