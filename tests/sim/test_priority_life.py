"""The priority queue's lives: old wounds, and planted bugs that the world must find."""

import pytest

from snowmelt.sim.families import family
from snowmelt.sim.faults import KINDS
from snowmelt.sim.life import Ending, live
from snowmelt.sim.scenario import drawn

# Each of these lives showed what is named, before it was mended.
SEEDS = (
    2,  # a flush that an earlier view's home had waited for was told to the new view's
    18,
    15,  # a node cut off and accepted again into the same view settled anew, alone, for ever
    28,
    35,
    41,
    25,  # a put redone in part: two operations got one order
    26,  # a put redone in part was declined, while its first part stayed in the queue
    62,  # "there is no such queue", said by one that had not heard of all queues yet
    125,  # a put that one of its homes had no room for was declined, and done anew
    166,  # what is gone was counted off once for each time that it was told
    303,
    206,  # a body that nobody can read held up all that was granted with it
    340,  # an inquiry counted a copy that its home knew to be void
    262,  # a body that its own home could not read came with no lease, again and again
    455,
    333,  # a get went on with what one home had leased, and passed what another had not
    1054,  # what was void at one who was away had been stored elsewhere, and got, meanwhile
    1840,  # what was purged before it came was not known to be of its put, and an attempt came back
    74,  # a put in line over a view went on without what came back with that view
    1338,  # what came back while a disk was slow was counted nowhere: neither leased nor ready
    220,  # an element moved while its put was asked after: nobody had it, and it was got twice
    330,  # a loop said to be missed what it had told, since its next word came too late
    708,  # the same, of one that was not answered; and a machine that slept was behind by that
    # The exam waited for copies of what nobody was told of, whose only one was damaged. Since
    # clients ask again sooner after a refusal, it shows that one stays short of copies.
    pytest.param(
        4160, marks=pytest.mark.xfail(reason="one is short of copies for long", strict=True)
    ),
    50251,  # what a group had was kept for good, whose notes were lost with their only disk
)

THEMED = (
    (11, "everything"),  # largest first, a get went on after a view in the wrong order
    (249, "everything"),  # a body that nobody can read held up all that was granted with it
    (1309, "disks"),  # the judge took a view of a number that came again for the one that it knew
    (209, "everything"),  # a loop said to be missed what it had told: its next word came too late
    (370, "bounded"),  # an element was handed out, and then refused for want of room
    (661, "everything"),  # a door left a put to another, forgot that, and began it anew
    (695, "everything"),  # what found no room took along what was there before, and had been got
    # These showed a judge that was too strict, or one that looked too early:
    (193, "everything"),  # until a put is answered, a view may be without its element
    (759, "everything"),  # part of a put was got, its only holder left, and it was done anew
    (837, "everything"),  # an element waited for its node when the queue was said to be drained
    (426, "everything"),  # a view was announced after the one that came after it
    (1191, "short leases"),  # two doors sent the client of a put to each other for ever
    (738, "everything"),  # the get that was called first was not the first in the order
)
CALM = ("loss", "duplication", "reordering", "delay")
CALM_SEEDS = (
    16,  # a put was refused as full, and its first attempt came back with a node
    121,  # what was purged was counted as none where its home's answer was lost
    74,  # one that is not refused for that reason was asked again for ever
)


def lived(seed, theme=None):
    return live(drawn("priority", seed, KINDS, theme=theme), family("priority"))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_once_went_wrong_goes_well(seed):
    report = lived(seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


@pytest.mark.parametrize(("seed", "theme"), THEMED)
def test_what_once_went_wrong_goes_well_under_its_theme(seed, theme):
    report = lived(seed, theme)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


@pytest.mark.parametrize("seed", CALM_SEEDS)
def test_what_once_went_wrong_without_a_crash_goes_well(seed):
    report = live(drawn("priority", seed, CALM, theme=None), family("priority"))
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")
