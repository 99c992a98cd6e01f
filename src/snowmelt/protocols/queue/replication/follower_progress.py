"""The others' copies, as their leader knows them: what each has, and what brings it up.

1. A step goes to all who have those before it. Steps are kept for those who turn out to lack some,
   up to so many bytes; then a copy that is on its way goes on as of the last (`sending.py`).
2. A follower that lacks steps is sent them, or all of the copy when they are not at hand any more.
3. What has no answer for a while is said again, also while later steps go: these are of no use to
   one who lacks an earlier. A silent follower, though its node is here, is told to the controller,
   which names another (`controller.py`); at growing intervals.
4. Where flushes may linger, a follower that began anew may lack what it told: it is asked what it
   has, and told what its leader has by then (`copy.py`, rule 5).
5. What is large is given time before it is sent again, each time more.
6. A large step goes when there is way for it (`send_window.py`), and no step before those that it
   follows. When the first large one that a follower lacks is as good as lost, it goes again before
   any later one: that would be of no use, and in its way.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.protocols.queue.messages.home_words import Assignment, Unreached
from snowmelt.protocols.queue.messages.words import Append, Bring, Confirm, Fence, Head
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.sending import Sending
from snowmelt.protocols.queue.replication.takeover import SILENT_MAX
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.store.send_window import SendWindow
from snowmelt.protocols.queue.store.snapshot import Snapshot
from snowmelt.protocols.queue.streams import node_of

AGAIN_AFTER: Final = milliseconds(300)
COMPLAIN_LONGEST: Final = seconds(80)
STEP_MAX: Final = 66 << 20
"""No larger step is sent: a copy is, in pieces. Many records can be as large, and no single put."""
LIGHT_BYTES: Final = 1 << 20
LARGE: Final = 16
"""One part of so many of what may be on its way to a node is a large step (rule 6)."""
BYTES_PER_SECOND: Final = 32 << 20
TRIES_MAX: Final = 4
TRIES_SMALL: Final = 2
"""What is not large may wait for a slow disk all the same."""


class FollowerProgress(msgspec.Struct):
    """What is known of another copy."""

    appended: int | None = None
    """Its last step; None where it is not known that it has this leader's steps."""
    fenced: bool = False
    run: str = ""
    confirmed: int = 0
    heard: Instant = Instant(0)
    sent: Instant = Instant(0)
    """Since when nothing came of what it was told: it was said then, or some of it was answered."""
    sending: Sending | None = None
    """The copy that is on its way to it."""
    told: int = 0
    """The last step that went to it."""
    large: dict[int, None] = msgspec.field(default_factory=dict)
    """Those on their way to it that are large."""
    heavy: int = 0
    """How many bytes of bodies its last piece has."""
    tries: int = 0
    """How often the same was sent again (rule 5)."""

    def waits(self, step: int) -> bool:
        """Whether steps up to this wait for way to it (rule 6)."""
        return self.appended is not None and self.sending is None and self.told < step

    def send_anew(self, copy: Copy) -> None:
        """What is on its way goes on as of the last step."""
        if self.sending is not None and self.sending.head != copy.head:
            self.sending = Sending(copy, self.sending)


class Followers:
    """All of one term, by keepers."""

    def __init__(
        self,
        outbox: Outbox,
        home: Assignment,
        copy: Copy,
        all_: dict[str, FollowerProgress],
        ways: SendWindow,
    ) -> None:
        self.all = all_
        self.asked = 0
        """How often it was asked whether this leader leads still."""
        self._outbox = outbox
        self._ways = ways
        self.home = home
        self.copy = copy
        self.backups: dict[int, Snapshot] = {}
        """Copies that people read (`backups.py`), by their numbers."""
        self.sent_anew = False
        """Whether the copies on their way name nothing any more that had ended by the last step."""
        self._began = outbox.now
        self._complain_at = later(outbox.now, SILENT_MAX)
        self._complained = SILENT_MAX

    # --- what they have ---------------------------------------------------------------------------

    @property
    def sends(self) -> bool:
        """Whether a copy is on its way to somebody."""
        return len(self.backups) > 0 or any(one.sending is not None for one in self.all.values())

    @property
    def lacking(self) -> bool:
        """Whether somebody has no copy that goes on by steps or is away, or there are too few."""
        few = 1 + len(self.all) < self.home.settings.replicas
        return few or any(
            one.appended is None or _is_away(self._outbox, name) for name, one in self.all.items()
        )

    @property
    def behind(self) -> list[str]:
        """Who has not the last step, or is away: an idle queue has no step that tells of that."""
        step = self.copy.head.step
        return [
            name
            for name, one in self.all.items()
            if one.appended != step or _is_away(self._outbox, name)
        ]

    def viewed(self) -> None:
        """Some may have begun anew (rule 4)."""
        presence = self._outbox.presence
        if presence is None or not self.home.settings.linger:
            return
        for name, follower in self.all.items():
            run = presence.run_of(name) if name in presence.keepers else follower.run
            if run != follower.run:
                follower.run, follower.appended, follower.fenced = run, None, False
                follower.sending = None
                self._outbox.wake(self._outbox.now)

    # --- what they are told -----------------------------------------------------------------------

    def append(self, step: Append) -> None:
        """One more step (rule 1)."""
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))
        if step.size > STEP_MAX:
            self.copy.forget()
            for name, follower in self.all.items():
                self._bring_up(name, follower)
            return
        self._remember(step)
        for name, follower in self.all.items():
            if step.after.term != step.head.term:  # the first of this term
                if follower.fenced:
                    self._bring_up(name, follower)
            elif follower.appended is not None:
                if follower.appended == step.after.step:
                    follower.sent = self._outbox.now
                if follower.told == step.after.step:
                    self._goes(name, follower, step)

    def _goes(self, keeper: str, follower: FollowerProgress, step: Append) -> bool:
        """Whether a step may go now; then it does (rule 6)."""
        target, number, term = node_of(keeper), step.head.step, self.home.term
        if step.bodies and (size := step.weight) > self._outbox.limits.way_bytes // LARGE:
            if not self._ways.goes(target, (self.home.queue, number), size, self._outbox.now):
                self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))
                return False
            follower.large[number] = None
        follower.told = number
        word = step if step.term == term else msgspec.structs.replace(step, term=term)
        self._outbox.send(target, word)
        return True

    def _go_on(self, keeper: str, follower: FollowerProgress) -> None:
        """Those behind the last that went to it (rule 6); or the copy, if they are not there."""
        steps, told = self.copy.recent, follower.told
        if told == self.copy.head.step:
            return
        if not steps or steps[0].after.step > told:
            self._send_copy(keeper, follower)
            return
        for step in steps:
            if step.head.step > told and not self._goes(keeper, follower, step):
                return

    def _remember(self, step: Append) -> None:
        # Rule 1.
        sendings = [one.sending for one in self.all.values() if one.sending is not None]
        known = [one.appended for one in self.all.values() if one.appended is not None]
        least = min([*known, *[one.head.step for one in sendings]], default=self.copy.head.step)
        self.copy.remember(step, least)
        steps = self.copy.recent
        begin = steps[0].after.step if steps else self.copy.head.step
        if any(one.head.step < begin for one in sendings):
            self.send_anew()

    def send_anew(self) -> None:
        """All copies on their way go on as of the last step."""
        self.sent_anew = True
        for one in self.all.values():
            one.send_anew(self.copy)

    def ask(self) -> None:
        """Asks all whether a later term was heard of."""
        word = Confirm(self.home.queue, self.home.term, self.asked + 1)
        for name, one in self.all.items():
            if one.confirmed == self.asked and one.appended == self.copy.head.step:
                one.sent = self._outbox.now
            self._outbox.send(node_of(name), word)
        self.asked += 1
        if self.all:
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def _patience(self, follower: FollowerProgress) -> Duration:
        """How long what was sent last may be on its way (rule 5)."""
        size = self.copy.recent_bytes if follower.sending is None else follower.heavy
        way = max(0, size - LIGHT_BYTES) * SECOND // BYTES_PER_SECOND
        tries = min(follower.tries, TRIES_MAX)
        return Duration((AGAIN_AFTER << min(tries, TRIES_SMALL)) + (way << tries))

    # --- what they say ----------------------------------------------------------------------------

    def _heard(self, keeper: str) -> FollowerProgress | None:
        follower = self.all.get(keeper)
        if follower is not None:
            follower.heard = self._outbox.now
        return follower

    def appended(self, keeper: str, head: Head) -> None:
        """One has all up to this step."""
        follower = self._heard(keeper)
        if follower is None:
            return
        follower.fenced = True
        brought = follower.sending is not None and head >= follower.sending.head
        if brought:
            follower.sending = None
        # Who goes on by steps has taken those of earlier terms, too, as they are here.
        mine = head.term == self.home.term or follower.appended is not None
        known = mine and head.step <= self.copy.head.step
        if known and head.step > (follower.appended or -1):
            follower.appended, follower.tries, follower.sent = head.step, 0, self._outbox.now
            follower.told = max(follower.told, head.step)
        for number in [one for one in follower.large if known and one <= head.step]:
            del follower.large[number]
            self._ways.came(node_of(keeper), (self.home.queue, number))
        if follower.appended == self.copy.head.step:
            return
        if brought:  # the steps behind its copy
            self._bring_up(keeper, follower)
            return
        if known and follower.waits(self.copy.head.step):
            self._go_on(keeper, follower)
        self._later(follower)

    def is_behind(self, keeper: str, head: Head) -> None:
        """One has no more than this, whatever it had: its disk may be another, or older."""
        follower = self._heard(keeper)
        if follower is None:
            return
        follower.fenced = True
        if head.term != self.home.term:
            follower.appended = None
        elif follower.appended is not None:
            follower.appended = min(follower.appended, head.step)
        self._later(follower)

    def fenced(self, keeper: str, head: Head) -> None:
        """One takes nothing earlier, and this is what it has."""
        follower = self._heard(keeper)
        if follower is None or follower.appended is not None:
            return
        self.begins(keeper, head)
        self._bring_up(keeper, follower)

    def begins(self, keeper: str, head: Head) -> None:
        """One takes nothing earlier, and has this; perhaps it lacks no more than some steps."""
        follower = self.all[keeper]
        follower.fenced = True
        if head == self.copy.head or any(head == step.after for step in self.copy.recent):
            follower.appended = follower.told = head.step

    def confirmed(self, keeper: str, number: int) -> None:
        """One has heard of no later term."""
        follower = self._heard(keeper)
        if follower is not None:
            follower.confirmed = max(follower.confirmed, number)

    def bring(self, keeper: str, *, heard: bool) -> Sending | None:
        """The copy on its way to one; it may have said that it has what came before."""
        follower = self._heard(keeper) if heard else self.all.get(keeper)
        if follower is None:
            return None
        if heard:
            follower.tries, follower.sent = 0, self._outbox.now
        return follower.sending

    def _later(self, follower: FollowerProgress) -> None:
        """What it lacks is on its way, or is sent again after a while."""
        self._outbox.wake(later(max(follower.sent, self._outbox.now), AGAIN_AFTER))

    # --- who lacks something ----------------------------------------------------------------------

    def _bring_up(self, keeper: str, follower: FollowerProgress) -> None:
        # Rule 2.
        now, queue, term = self._outbox.now, self.home.queue, self.home.term
        follower.sent = now
        appended = follower.appended
        if appended is None and not follower.fenced:
            since = self.home.since
            fence = Fence(queue, term, keeper, follower.run, self.copy.head, since, sought=term)
            self._outbox.send(node_of(keeper), fence)
        elif appended is not None:
            follower.told = appended
            self._go_on(keeper, follower)
        else:
            self._send_copy(keeper, follower)
        self._outbox.wake(later(now, AGAIN_AFTER))

    def _send_copy(self, keeper: str, follower: FollowerProgress) -> None:
        if self.copy.head.term != self.home.term:
            return  # its first step is not made yet
        follower.told = self.copy.head.step  # what comes behind it goes as it comes
        if follower.sending is None:
            follower.sending = Sending(self.copy)
        elif follower.tries > TRIES_MAX:  # what finds no room there may have ended since
            follower.send_anew(self.copy)
            follower.tries = 0
        head = follower.sending.head
        self._outbox.inside.append(Bring(self.home.queue, self.home.term, keeper, head, 0))

    def tick(self, confirmed: int) -> None:
        """Says again what has no answer (rule 3)."""
        now = self._outbox.now
        for name, follower in self.all.items():
            behind = follower.appended != self.copy.head.step
            unsure = follower.confirmed < self.asked and confirmed < self.asked
            if not (behind or unsure):
                continue
            patience = self._patience(follower)
            large = min(follower.large, default=0)
            flies = self._ways.flies(node_of(name), (self.home.queue, large), now)
            if follower.waits(self.copy.head.step) and (flies or not large):  # rule 6
                self._go_on(name, follower)
            if later(follower.sent, patience) <= now:
                follower.sent, follower.tries = now, follower.tries + 1
                if unsure:
                    confirm = Confirm(self.home.queue, self.home.term, self.asked)
                    self._outbox.send(node_of(name), confirm)
                if behind and not flies:
                    self._bring_up(name, follower)
            self._outbox.wake(later(follower.sent, self._patience(follower)))
        self._complain()

    def _complain(self) -> None:
        now, home, silent = self._outbox.now, self.home, self._silent()
        if self._outbox.presence is None or silent is None:
            self._complained = SILENT_MAX
            return
        if self._complain_at > now:
            self._outbox.wake(self._complain_at)
            return
        self._complained = Duration(min(2 * self._complained, COMPLAIN_LONGEST))
        self._complain_at = later(now, self._complained)
        self._outbox.note(f"{home.queue}: {silent} does not answer; asks for a way round it")
        word = Unreached(home.queue, home.term, home.run, silent)
        self._outbox.to_coordinator(word)

    def _silent(self) -> str | None:
        """One that is here, and has not answered for too long."""
        presence, now = self._outbox.presence, self._outbox.now
        for name, one in self.all.items():
            waits = one.appended != self.copy.head.step or one.confirmed < self.asked
            most = Duration(SILENT_MAX + self._patience(one))
            long = later(max(one.heard, self._began), most) <= now
            if waits and long and presence is not None and name in presence.keepers:
                return name
        return None


def copied(some: Iterable[FollowerProgress]) -> int:
    """Of a hundred parts of its copy, how many the one has that lacks most.

    >>> copied([FollowerProgress(appended=7), FollowerProgress()]), copied([])
    (0, 100)
    """
    parts = [100 if one.appended is not None else _share(one) for one in some]
    return min(parts, default=100)


def _share(follower: FollowerProgress) -> int:
    return 0 if follower.sending is None else follower.sending.share


def _is_away(outbox: Outbox, keeper: str) -> bool:
    return outbox.presence is not None and keeper not in outbox.presence.keepers
