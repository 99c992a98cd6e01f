"""An attack: messages and connections that nobody honest makes, and a judge of what they did.

Theory of operation
-------------------
What is sent is made from the types of messages (`malice`, `extremes`). A message that is new
tomorrow is attacked tomorrow, without a line here.

1. The attackers, the honest work and each node are processes of their own, with shares of the
   processor of their own where the system can give them (`shares`).
2. First the honest work is alone, beside programs that only take the attackers' share of the
   processor, and its rate is measured. Then each kind of attack has its time.
   Then all is calm, the honest work ends, and its account is made.
3. A judge sees what honest clients wrote down, and what anybody can see of a process: that it
   lives, its memory, its disk, and what it tells to `INQUIRE` (`watching`, `judging`).
4. Attackers make and use names with the prefix `attack.` only, and honest work is done under
   `honest.`: nothing else of a cluster is touched. Where an attacker has no right to a name, it
   says honest names too: these calls must be refused.
5. A member that lies may cost what it keeps. So that kind comes last, after the account, and is
   judged by what the other nodes must keep: they live, and they keep their bounds.
6. What could not be looked at is `unjudged`, and no verdict hides it.

Read `setting`, `run`, then one kind: `strangers`, `roles`, `fields`, `costs`, `members`.
"""
