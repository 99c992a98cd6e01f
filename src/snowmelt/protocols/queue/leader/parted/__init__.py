"""One order over several partitions: numbers for what is put, and phases for those who get.

Theory of operation
-------------------
A queue with partitions is as many queues of the engine, `log/0`, `log/1` and so on
(`partition_names.py`), each with leader, followers, terms, leases and tokens of its own. The
*anchor* is the leader of `log/0`, in its term there. It numbers what is put, as Skueue's and
Skeap's anchors do, and serves gets in *phases*, as Seap does. All that it must not forget is one
number. What doors do of it is in `router`, what they all say in `messages/partition_words.py`.

Puts:

1. A put lies whole in one partition, which its client chooses.
2. What a partition lets in waits for its *numbers* (`numbering.py`). One question is on its way at
   a time, for all that came meanwhile. What was put before, is refused, or waits for room asks for
   none; what waits for numbers counts as if it were in. Publications need numbers, too, and what
   steps put; what comes back has those that it had.
3. The anchor gives the next numbers, to each question once, as soon as it is sure, asked after the
   question, that it leads, and in turn (`log.py`, `confirm`). So no old anchor gives any, and what
   is put after an answer has a later number. They are below a bound that was flushed first; the
   next anchor begins at the bound. A partition says how far it went: no number is below that,
   though a disk was put back.
4. The partition places what it let in there, with its next step. A position is the priority and the
   number; of several priorities each has its items from the put's first number on. Numbers that
   nothing takes, since it was refused by then, or its leader died, stay unused: nobody sees that.

Gets:

5. A client asks any node, its *door* (`parted_gets.py`), which asks the anchor: again when its
   client does, and at once when there is another anchor. The door remembers the get; nobody else
   must.
6. What comes while a phase runs belongs to the next one. A phase asks each partition for its first
   items, as many as all of its gets together want, in a *turn* (`anchor.py`).
7. A turn has the last numbers that its partition was told, and names the number up to which all
   were told. A partition reports when all that it was told is placed, and lists nothing from that
   number on (`partition.py`). So a phase sees a beginning of the order: of what was put, nothing
   that a get is given first has a smaller number than what an earlier get was given.
8. A report is told when all that it saw is safe, and it is sure that its leader leads still. So it
   has whatever was answered before the phase began: what was put, given back, redriven or purged.
   What a partition has and did not list bounds what is certain; the rest is the next phase's.
9. The least goes to the gets in their order (`phases.py`). The next turn has the *grants* of the
   phase before. A partition leases what it was told, as far as it is ready still, and its report
   says that this is safe: the next phase ends only then. Grants that are not known to be safe go
   to whoever leads that partition next. A turn of an earlier phase, of an earlier anchor, or for
   another term of the partition is not heard. So nothing is leased late.
10. Each partition gives its piece to the door, and names those that give some. With the last piece
   the door answers. The time that a piece waited there is taken off its lease. If there is nothing
   in any of them, the door asks again.
11. A get that the anchor does not know is named in the turns of the phase that begins next: it may
   have been served, also by an earlier anchor. Who has a lease for it says so. Then that is the
   answer, with what stands before its last and was given, and did not arrive; and nothing new. A
   lease says what its phase saw (`phase_stamp.py`): what a partition leases for a get that was
   answered without it is given to nobody, and goes back in its time.
12. Where nothing is ready, a get waits at the anchor, in its order. A partition that listed
   nothing, or all that it had, says once when something is ready. It says so as well when its
   leader begins, so that the anchor seeks its home. A get that is asked for again has all
   partitions looked at, once a second at most: a lost word costs little.
13. "Nothing" is answered after a phase in which no partition had anything, and again when that get
   is heard of again: what was answered must be leased nothing. Who is failing over is
   waited for; long after its patience a get is told for whom. A partition of which nobody who is
   here has a copy is left out, and named in the answer.
14. A partition goes by the latest term of an anchor that it heard of, in a turn or with numbers: an
   earlier one's words are not heard. Its leader begins with the term that its node knows of.
15. With a door go its gets. A client's get that must see its own put is sent when that was
   answered.
16. What an anchor and a partition led by its own node say need not travel (`beside.py`): where
   nobody else has a copy, and all is safe, numbers and reports are made at once.
17. A get that nobody waits for *leaves* (`router/parted_gets.py`). Its client says so, or its last
   connection to the door closed. The door answers it with nothing, and tells the anchor, and the
   next anchor.
   One that waits there and holds nothing is forgotten at once. Any other may have been served: the
   next turns name it, behind their grants. Each partition takes back what it leased to it before it
   reports, which does not count as a delivery that failed. Then the door hears that it left. It is
   told "nothing" if it is heard of again. But a client whose connections closed may live, and ask
   again, here or elsewhere. For it a door can say so only of what it asked itself, and asked last,
   and partitions take back only what was given to that asking, first. Pieces are for one asking,
   so none of them is told to a later one. That is served anew.

Keys (`by_key.py`, `uniques.py`):

18. A key lives in one partition, for ever: by a checksum (`partition_names.py`, `home_of`), with
   which the client picks it. A leader lets in no key that lives elsewhere. So order and limits by
   key are one leader's, and a uniqueness key holds for all.
19. A report lists what may be given now, one by one, as if those before were in hand: nothing is
   by that. So grants are the beginning of a list, and what is granted may be given, unless
   something came back, or was taken, meanwhile. It is looked at again when it is leased, and what
   may not be leased any more is not: the door asks again (rule 10). "Nothing" says that no
   partition has anything that may be given.
20. What becomes free says `Ready` as what is put does (rule 12). A leader that begins knows what is
   in hand by the leases, and leases nothing in its first second where there is a rate.
21. Limits of all items are divided. So they hold whoever is away, and for groups, which ask no
   anchor. Where keys come in turns, or items by priorities, what has a later number may stand
   before what a phase saw. That is refused with several partitions.

Where two of these nodes never hear each other:

22. What is said again because it had no answer (rules 3, 5, 7 and 17) goes by the coordinator as
    well, which hears both; and so do answers to it (`router/router.py`). A partition that is to
    give a get again what it has (rule 11) says that both ways, too. So each answer takes a
    repetition, and none is left out. `Ready` is not said again: rule 12 does without.

What it costs. A put: a round trip to the anchor, shared by all of a step. A get: two more, shared
by all of a phase. While a partition fails over all gets wait for it.

Paper words (Feldmann and Scheideler, *Skueue*, *Skeap and Seap*). The anchor is theirs, and numbers
are their positions. Their aggregation tree is flat here: the anchor asks partitions itself.
"""
