"""The next home of a queue: what follows from the last, and from who is here."""

from collections.abc import Container

import msgspec

from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.streams import Presence


def towards(home: home_words.Assignment, asked: QueueSettings) -> home_words.Assignment:
    """With these settings; more copies must be safe only once all have what its master has."""
    needed = home.settings.copies_needed
    if asked == home.wanted or asked.copies_needed <= needed:
        return msgspec.structs.replace(home, settings=asked, wanted=None)
    now = msgspec.structs.replace(asked, durable_copies=needed)
    return msgspec.structs.replace(home, settings=now, wanted=asked)


def next_home(
    home: home_words.Assignment,
    term: int,
    master: str,
    mirrors: tuple[str, ...],
    run: str,
    altered: home_words.Assignment,
) -> home_words.Assignment:
    """The home of a later term, with settings that may be others."""
    last = home
    if home.active:
        done = {"before": home.counted, "before_term": home.term, "sought": 0}
        last = msgspec.structs.replace(home, **done)
    settings, keepers = altered.settings, (master, *mirrors)
    there = tuple([one for one in keepers if one in last.before])
    varies = settings.copies_needed <= settings.replicas // 2
    enough = master in there and settings.copies_needed <= len(there) < len(keepers)
    return home_words.Assignment(
        home.queue,
        term,
        master,
        mirrors,
        settings,
        run,
        before=last.before,
        before_term=last.before_term,
        in_sync=there if varies and enough else (),
        wanted=altered.wanted,
        sought=last.answers_needed if last.before and settings != home.settings else last.sought,
        since=home.since,
        maker=home.maker,
    )


def as_said(
    home: home_words.Assignment, word: home_words.Activate | home_words.Among
) -> home_words.Assignment:
    """What a home is by its master's word; the same where it was that, or can't be."""
    if isinstance(word, home_words.Activate):
        done = {"active": True, "before": (), "before_term": 0, "sought": 0}
        return home if home.active else msgspec.structs.replace(home, **done)
    named, keepers = set(word.in_sync), {*home.keepers}
    if word.number != home.sets + 1 or not {home.master} <= named <= keepers:
        return home
    return msgspec.structs.replace(home, in_sync=word.in_sync, sets=word.number)


def stands_still(home: home_words.Assignment) -> bool:
    """Whether its master can do nothing without each of its mirrors."""
    return not home.active or home.settings.copies_needed > len(home.mirrors)


def mirrored_by(
    master: str, home: home_words.Assignment, presence: Presence, leaving: Container[str] = ()
) -> tuple[str, ...]:
    """Who mirrors from now on: who did and is here, then others of the ring, then who is away.

    Who is leaving is here still, but not in the presence of those who stay.
    """
    old = home.keepers
    stay = [keeper for keeper in old if keeper in presence.keepers]
    away = [keeper for keeper in old if keeper not in presence.keepers and keeper not in leaving]
    others = [*stay, *presence.after(master, len(presence.keepers)), *away]
    mirrors = dict.fromkeys(one for one in others if one != master)
    return tuple(mirrors)[: home.settings.replicas - 1]
