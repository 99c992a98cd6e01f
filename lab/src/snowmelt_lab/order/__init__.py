"""How far out of order items come when dequeues fail: Blizzard, section 3.1.

The paper defines the measure, "the expected distance a client would have to move out-of-order
dequeued values in order to achieve the original enqueue order", and measures nothing. Here it is.

**The crew.** c consumers are always at work on a queue that never runs dry. Each takes a lease of b
items from the head, and works on each item for a time drawn evenly from half to one and a half of
the mean. Then, with chance 1 - f, the whole lease is confirmed. With chance f the lease fails and
says nothing: the consumer is gone, another takes its place at once, and T seconds after the lease
began its items go back:

- `own place`: each to its own position, so before everything younger. What Snowmelt does, and what
  the paper's sections 2.1 and 3.1 call for ("added back to the head of the queue").
- `tail`: behind all that wait, L items. The paper's section 2.2.3 leaves this open ("moves the data
  item back into the queue"), and it is what many queues do.

**The distance.** Items have ranks 0, 1, 2, … in the order they were enqueued. Each item comes to
its consumer for good once: by the delivery that is confirmed. Those deliveries stand in an order;
the item of rank r stands at index i in it. Its distance is |i - r| places, and the measure is the
mean over items: Spearman's footrule for each item. Why this one:

- It is what the paper's words say: how many places the value has to be moved to be where it
  belongs.
- It needs no choice of which items to move, and says the same as measures that do: by Diaconis and
  Graham (1977) its total lies between the least number of swaps of neighbours and twice that.
- One item that comes d places late has distance d and moves d others by one: 2d in all. So to first
  order the mean is 2 f d, where d = b c T / (b m) = c T / m is how many items are delivered while a
  lease runs out (m the mean time for an item). `expected` is this; it is what the paper suspects: a
  function of throughput and of the chance to fail.

Deliveries made later to be thrown away do not count: the client that failed has seen the value, but
a client that fails returns nothing.

The order of confirmations is measured too (`confirmed`). It is not the queue's doing: even without
failures, consumers that work side by side finish in another order than they began.
"""
