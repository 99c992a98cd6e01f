from hypothesis import given
from hypothesis import strategies as st

from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Invalid, Valid
from snowmelt_world.check.views import check_view_agreement, check_view_monotony


def seen(process, epoch, members, called, returned=None):
    returned = called if returned is None else returned
    return Operation(process, Kind.VIEW, tuple(members), called, returned, position=epoch)


def test_one_content_an_epoch_is_agreement():
    views = [seen(name, epoch, "abc"[:epoch], epoch) for name in "abc" for epoch in (1, 2, 3)]
    assert check_view_agreement(History.of(views)) == Valid("view_agreement")


def test_two_contents_of_an_epoch_are_found():
    first, second = seen("a", 2, "ab", 1), seen("b", 2, "b", 9)
    others = [seen("c", epoch, "abc", epoch) for epoch in range(3, 50)]
    verdict = check_view_agreement(History.of([first, *others, second]))
    assert isinstance(verdict, Invalid)
    assert verdict.example == (first, second)


def test_a_process_that_goes_back_is_found():
    high, low = seen("a", 7, "a", 5), seen("a", 6, "a", 6)
    others = [seen("b", epoch, "a", 100 - epoch) for epoch in (3, 2)]
    verdict = check_view_monotony(History.of([low, *others, high]))
    assert isinstance(verdict, Invalid)
    assert verdict.example in ((high, low), (others[0], others[1]))


def test_another_process_may_be_behind():
    history = History.of([seen("a", 7, "a", 5), seen("b", 6, "a", 6)])
    assert check_view_monotony(history) == Valid("view_monotony")


def test_observations_that_overlap_say_nothing_of_each_other():
    for low in (seen("a", 6, "a", 5), seen("a", 6, "a", 3, 5), seen("a", 6, "a", 5, 9)):
        history = History.of([seen("a", 7, "a", 4, 5), low])
        assert check_view_monotony(history) == Valid("view_monotony")


def test_the_highest_epoch_counts_and_not_the_last():
    views = seen("a", 7, "a", 1, 2), seen("a", 5, "a", 2, 4), seen("a", 6, "a", 5)
    verdict = check_view_monotony(History.of(views))
    assert isinstance(verdict, Invalid)
    assert verdict.example == (views[0], views[2])


def test_views_that_failed_to_come_are_left_out():
    failed = Operation("a", Kind.VIEW, ("z",), 9, 9, Ended.FAILED, 1)
    history = History.of([seen("a", 7, "a", 5), failed, seen("a", 7, "a", 11)])
    assert check_view_monotony(history) == Valid("view_monotony")
    assert check_view_agreement(history) == Valid("view_agreement")


observations = st.builds(
    lambda process, epoch, called, long: seen(process, epoch, "a", called, called + long),
    st.sampled_from("ab"),
    st.integers(1, 4),
    st.integers(0, 9),
    st.integers(0, 3),
)


@given(st.lists(observations, max_size=8))
def test_monotony_agrees_with_a_look_at_every_pair(views):
    falls = [
        (one, other)
        for one in views
        for other in views
        if one.process == other.process
        and one.until < other.called
        and one.position > other.position
    ]
    verdict = check_view_monotony(History.of(views))
    assert isinstance(verdict, Invalid) == bool(falls)
    assert not falls or verdict.example in falls
