"""What a node's parts hear is what it is sent, and what they say to each other: nothing else."""

from random import Random

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue import MESSAGES, QueueNode
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.messages import partition_words as parted
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.outbox import SaidAgain

WITHIN = {
    parted.Post,
    parted.News,
    words.Undo,
    words.ReadBodies,
    words.Again,
    words.CallRouted,
    words.AssignmentStored,
    words.ToLeaderOf,
    SaidAgain,
}


def test_all_that_is_sent_is_heard():
    node = QueueNode(NodeId("n1"), Random(1))
    assert set(node._hears) - WITHIN == set(MESSAGES) - set(calls.REQUESTS)
