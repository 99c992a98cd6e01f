"""A door for programs that speak SQS: `snowmelt sqs`.

How SQS's words are ours:

1. A queue of SQS is a fifo of ours of one partition, under the same name; one whose name begins
   with `_` or `-` has `sqs.` before it. So other programs may put and get there, too.
2. A message is an item. Its body is the item's body; its id, its attributes and what else SQS knows
   of it stand in the header `sqs` (`messages.py`).
3. The visibility timeout is the length of a lease, which the program chooses as it receives. What
   one answer brings is under one lease; when the time of one message is changed, that one is
   extended alone.
4. A receipt names that lease and the item's position. The lease lies in the cluster, and belongs
   to no door: any door can settle it, and one that dies gives nothing back early. In an embedded
   folder leases end with the door, as they do there with any program.
5. A receipt whose time is over deletes nothing and changes nothing. `DeleteMessage` succeeds even
   so, as in SQS; the message is received again.
6. How often a message was received is how often its delivery failed, and one: an ended lease
   counts, and so does a visibility timeout set to 0.
7. What queues there are, with attributes, tags and policies, lies in a queue of ours that all doors
   read as a log, and change by comparing versions (`registry.py`). A door knows at once what it
   changed itself, and what another did within a second. It looks again before it says that there is
   no such queue.
8. A queue that is deleted is marked first and unmarked last. So nobody makes it anew while another
   door still deletes it; who tries hears `QueueDeletedRecently`.
9. A message that was received as often as its redrive policy allows goes to the dead-letter queue
   when it would be received again, once whatever dies (`dead_letters.py`).
10. A message older than its queue keeps messages is acknowledged in place of being received.
11. Users are the cluster's: an access key is a user's name, and a secret key is that user's secret.
    `put` is needed to send, `get` to receive and delete, `manage` for queues themselves. Policies
    are kept and shown, and decide nothing.
12. A FIFO queue is a fifo of ours that is in order by key; a message's group is its key. One answer
    has as many messages of a group as there are, in order. While one of them is in flight no other
    of the group is received. Its sequence number is its position.
13. In a standard queue `MessageGroupId` is a key, too: from the first message that has one on, the
    queue is fair by key. The group with the fewest messages in flight comes next.
14. What is sent twice to a FIFO queue is found by its deduplication id, and put under one
    number, which puts it once (`deduplication.py`).
15. When a program leaves a long poll, what came for it goes back as if it had not been taken.
"""
