"""A lead is believed for no longer than whoever comes next counts on."""

from itertools import count
from random import Random

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.etcd import Granted, Refreshed, Transacted
from snowmelt.protocols.membership.election import Election
from snowmelt.protocols.membership.records import Leader
from snowmelt.protocols.membership.settings import Settings

BEGIN = Instant(seconds(100))
ME = Leader(NodeId("n1"), Address("here", 7700), birth=1, start=1, nonce=0)


def test_of_a_longer_lease_than_was_asked_for_a_leader_is_sure_no_longer():
    settings = Settings()
    lead = settings.lead_seconds
    election = Election(settings, Random(1), count())
    (asked,) = election.stand(BEGIN)
    _, (put,) = election.answered(Granted(asked.message.number, 7, 15), ME, BEGIN)
    election.answered(Transacted(put.message.number, 1, succeeded=True), ME, BEGIN)
    assert election.sure_until == later(BEGIN, seconds(0.8 * lead))
    refresh_due = election.due(BEGIN)
    assert refresh_due == later(BEGIN, seconds(lead / 4))
    (refresh,) = election.refresh(refresh_due)
    election.answered(Refreshed(refresh.message.number, 15), ME, refresh_due)
    assert election.sure_until == later(refresh_due, seconds(0.8 * lead))
    # whoever is elected right after the last refresh leaves it out later than that
    heard = election.predecessor_heard
    assert later(later(heard, settings.patience), seconds(lead / 4)) > election.sure_until
