"""Objects stay where they were made until a probe finds them: the stochastic distributed queue.

Theory of operation
-------------------
From Johnson, "Designing a distributed queue". There is no broker. A producer keeps the objects that
it made. A consumer that wants one sends a request to a producer drawn by chance, and one that has
nothing passes the request on to another. So an object crosses the network once, from the process
that made it to the one that uses it. The order is any. One machine, `PoolPeer`, is a process' whole
part in a pool, as producer (`producer.py`), as consumer (`consumer.py`), or as both.

The paper's protocol:

1. *Probe.* A request goes to a producer drawn from its consumer's access list (`access.py`). One
   that has objects replies with some; one that has none passes it on, until `max_hops` were asked;
   the last one keeps it in line. The paper has each producer draw the next from the consumer's
   list. Here the consumer draws the whole way at once, from the same distribution, and the request
   carries what is left of it: so producers need not know the lists, and a consumer knows where its
   request may be.
2. *Line.* A new object goes to the first request in line, if any waits, else into the buffer.
3. *Room.* A producer with `buffers` objects waits until one leaves. A put is answered when its
   object is kept; `AwaitRoom` is answered when there is room for another, and a program that asks
   it before it makes an object is the paper's producer exactly.

What the paper leaves out, and a user needs:

4. *Loans.* What is given is kept, on loan to that consumer under a token, until it is settled. A
   consumer says now and then which loans it holds. When it does not for a `lease`, or for a `grace`
   after the way to it has ended, the loan is over. Delivered at least once, the objects go back to
   the front of the buffer and come to another; at most once, they are dropped.
5. *Settling.* A settlement is confirmed by the producer, the only one who knows its objects; one
   that comes after the loan is over is refused. At most once, it is sent when the object comes, and
   nobody waits.
6. *Attempts.* A request has a number, and each time it is tried again an attempt. It is tried again
   when the way to a producer on its route has ended, or when it has waited for `wait`; then all are
   asked (rule 18). Before, the consumer cancels the attempt, wherever it may be: it has used and
   will use nothing that came for it. So the producer may take what it gave for it back at once, and
   what comes for it later is given back by its token; a request that comes after the word that it
   is over is dropped. A request in line is dropped after `wait`, for its consumer is elsewhere by
   then.
7. *A loan that was used is never given back*, not by a doubled message either: for every request
   the consumer remembers for a time under which token it was answered.
8. *Large objects* travel in pieces between other messages. When the first has come the consumer
   knows (`Coming`): it does not try elsewhere. It says that it holds the loan until all has come
   or the way ends (`Lost`), or until it is given up since nothing comes any more (`NotReceived`).
9. *Introduction.* The cluster's nodes only introduce. Twice a second each process says to one of
   them what it is and how fast it produces, and learns who produces (`introduction.py`). Which is a
   matter of the pool's name and the view; its knowledge is soft, comes anew from the processes when
   it dies, and until it has heard of all nobody forgets anybody (`introducer.py`). With all nodes
   down the processes go on with those they know. Each also reports what it chose and how it fares
   (`PeerReport`): that is for people, and nothing is decided by it.
10. *Fan-out.* The introducer deals out acquaintances: with `fan_out` F a consumer knows F
    producers, each producer is known by about as many consumers, as few change as can be, and no
    producer is left that nobody knows.
11. *Rates.* A producer measures how many objects it makes a second while it is not held up
    (`rate.py`), and says so in every reply and introduction. With adaptive access a producer is
    drawn in proportion: the paper's figure 8 shows the wait to be least so. None counts as faster
    than all consumers together take, which the nodes add up: when each of several could serve all,
    it would not matter who is asked, but for the work of giving, which they had better share.
12. *Leaving.* A producer that leaves takes no more puts and invites the others, in turn, to take
    over what is left. What one of them asks for and is given is its own as soon as it is safe
    there. Such a loan never ends by itself, and what was given is said again until the other
    settles it or gives it back. So an object is never with two; and when the time for leaving is
    over first, it counts as left behind. An heir offers it under its own settings.
13. *Spill.* With it an object is on the producer's disk, flushed, before its put is answered, and
    until its settlement is; a producer that starts again on that disk offers all that is there.
    So it gives at least once: what a consumer asked for at most once comes again, if the producer
    died before it heard that it came.

14. *Room is told of once.* Several threads that ask for room are told of as much as there is; what
   one was told of is its own until it puts, or for `PROMISED`.
15. *Nothing is dropped in silence.* A message that could not leave this process comes back to it
   (`Unsent`): what it gave is taken back, for it can't have been used; a request goes another way.
16. *A next life answers for the one before, or says that it does not know.* What an heir that
   spills took over it remembers on its disk, by the leaver, the number and the token. It is there
   with the objects and, when they are done, after them, until the leaver has heard it, or for
   `REMEMBERED`. So its next life answers a retelling with `SettleLoan`, and says so itself, under
   whichever name: the token is proof enough. What is not there it never had, and gives back. One
   that has no disk says of what its former life asked for that it may have been used
   (`GiveBack.used`): it stays on loan, and counts as left behind when the time for leaving is over.
   So does what is given back later than an heir remembers it.
17. *What nobody needs is ended in agreement.* Hands change, and requests are passed on between any
   two. So a way on which nothing passes (`Unused`) is ended once neither side needs it (`Need`).
   A side needs it that may probe the other, has a request that may be there, or holds or settles
   what it gave. So does one that has lent it something or has its request in line, takes something
   over from it, or leaves the pool. Both agree before it ends, so it is no loss: nobody is told
   `Lost`, no grace begins, and whoever has something to say later finds a new way.
18. *Who is silent is not waited for.* What has waited for `wait` is nowhere for a moment: its
   consumer asks all producers that it may probe, each by itself, what they have (`Inquire`). When
   they have answered (`Stocked`), or after a tenth of `wait`, the request goes past those that have
   something, to one where it waits in line. Whoever has not answered is silent: no way is drawn
   past it, and nobody waits for its answer, until anything is heard from it; it is asked again
   after each `wait`, for a question may be lost. An answer counts however late it comes: for what
   found nobody that answered, and, if there is something, for what waits in line in vain. So no
   consumer stays idle beside a full producer for longer than `wait` and a tenth, and what a message
   takes, however many stand still. What gets have waited in vain counts for the next one's time.
19. *Room told ahead.* A program that puts one object after another, each at once after the answer
    to the one before, hears with that answer of places for the next ones (`Ahead`). Each is for one
    object of so many bytes. What is put into a place is in, and its put waits for nobody. A place
    counts against `buffers` and `max_bytes` until it is used or given up (`GiveUp`); whoever has
    taken one gives it up by dropping it. There is none while anybody waits for room, and who begins
    to wait has all given up that nobody has taken. There is none where objects are safe only on a
    disk. A process that leaves tells of none, and takes in what comes for a place that was taken
    before: it waits for that, a moment beyond its time. What does not come counts as left behind.

What a failure costs: a producer that dies without spill takes its objects with it. Those that it
had given away are used by whoever has them. A consumer that dies gives back what it had not
settled (at least once) or loses it (at most once). Messages may be lost, doubled, late or overtake:
that costs time, never an object. Clocks matter only for how long things take.
"""
