"""What becomes of an element, by what it was: rule 4 of the home. None where it can't be said."""

from collections.abc import Callable, Iterator, Mapping

from snowmelt.core.errors import LEASE_ENDED
from snowmelt.core.failures import failed
from snowmelt.core.instant import Duration
from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import Mark, Want, Word
from snowmelt.protocols.priority.positions import common, minus
from snowmelt.protocols.priority.rows import Rows
from snowmelt.protocols.priority.settings import How, QueueSettings, State
from snowmelt.protocols.priority.standing import Standing, marked, standing_of

Rule = Callable[[Standing], Standing | None]


class Rules:
    def __init__(self, desk: Desk, settings: QueueSettings) -> None:
        self._desk = desk
        self._settings = settings

    def become(self, rows: Rows, shares: Shares, rule: Rule) -> tuple[list[Mark], Shares]:
        """What becomes of elements by a rule, a turn later each; and of which it can't be said."""
        alike = rows.alike(shares)
        if alike is not None:  # as mostly
            new = rule(alike)
            if new is None or new == alike:
                return [], shares if new is None else ()
            return [marked(shares, new.after(alike, self._desk.epoch))], ()
        shares = union(shares)  # a get of any priorities names them one by one, as they are urgent
        changed: dict[Standing, list[Share]] = {}
        same: list[Share] = []
        known: Standing | None = None
        become: Standing | None = None
        those: list[Share] = []
        for priority, where, standing in rows.standings(shares):
            if standing is not known:  # neighbours mostly have one
                known, become, those = standing, rule(standing), []
                if become is not None and become != standing:
                    those = changed.setdefault(become.after(standing, self._desk.epoch), those)
            if become is not None:
                share = Share(priority, (where,))
                same.append(share)
                those.append(share)
        marks = [marked(union(each), after) for after, each in changed.items()]
        if sum([one.total for one in same]) == sum([one.total for one in shares]):  # as mostly
            return marks, ()
        return marks, minus(shares, union(same))

    def leasing(self, want: Want, lease: Duration) -> Rule:
        token = want.token

        def rule(was: Standing) -> Standing | None:
            if held_by(was, token):  # asked again
                return was
            if not _may_have(was, token):
                return None
            return Standing(
                0, 0, State.LEASED, token, want.operation, lease,
                int(want.ahead), was.failures, was.reason,
            )  # fmt: skip

        return rule

    def of(self, word: Word) -> Rule:
        """What a door passes on."""
        token, how = word.token, word.how
        if how == How.DONE:
            return lambda was: _gone(was, token) if held_by(was, token) else None
        if how == How.BACK:
            return lambda was: self._free(was, word) if held_by(was, token) else None
        if how in (How.FAILED, How.DEAD):
            return self.failing(token, word.reason, word)
        if how == How.PURGE:
            return lambda was: (
                _gone(was, token) if was.state == State.DEAD or _may_have(was, token) else None
            )
        if how == How.REDRIVE:
            return lambda was: _fresh(was, State.FREE) if was.state == State.DEAD else None
        return lambda _: None

    def failing(self, token: int, reason: str, word: Word | None = None) -> Rule:
        def rule(was: Standing) -> Standing | None:
            if not held_by(was, token):
                return None
            failures, why = failed(was.failures, was.reason, reason, ahead=bool(was.due))
            dead = word is not None and word.how == How.DEAD
            if dead or failures >= self._settings.deliveries_max:
                return _fresh(was, State.DEAD, failures=failures, reason=why)
            due = self._desk.wall + word.time if word is not None and word.time else 0
            state = State.HELD if due else State.FREE
            return _fresh(was, state, due=due, failures=failures, reason=why)

        return rule

    def lapsing(self, token: int) -> Rule:
        """A lease's time is over."""
        return self.failing(token, LEASE_ENDED)

    def freed(self, was: Standing) -> Standing | None:
        """What was held, once it is due."""
        if was.state != State.HELD or was.due > self._desk.wall:
            return None
        return _fresh(was, State.FREE, failures=was.failures, reason=was.reason)

    def _free(self, was: Standing, word: Word) -> Standing:
        due = self._desk.wall + word.time if word.time else 0
        state = State.HELD if due else State.FREE
        return _fresh(was, state, due=due, failures=was.failures, reason=was.reason)


def held_by(was: Standing, token: int) -> bool:
    return was.state == State.LEASED and was.token == token


def let_go(
    rows: Rows, gets: Mapping[OperationId, int], there: Shares, epoch: int
) -> Iterator[Mark]:
    """What is leased to gets that begin anew is free, as it was before (settling, rule 2)."""
    for operation, marks in (rows.leased_by(gets) if gets else {}).items():
        for mark in marks:
            was, shares = standing_of(mark), common(mark.shares, there)
            if shares and held_by(was, gets[operation]):
                new = _fresh(was, State.FREE, failures=was.failures, reason=was.reason)
                yield marked(shares, new.after(was, epoch))


def _may_have(was: Standing, token: int) -> bool:
    return was.state == State.FREE and was.token < token


def _fresh(
    was: Standing, state: State, due: int = 0, failures: int = 0, reason: str = ""
) -> Standing:
    """Not leased any more; the token stays known (rule 4)."""
    return Standing(
        was.epoch, was.turn, state, was.token, None, due=due, failures=failures, reason=reason
    )


def _gone(was: Standing, token: int) -> Standing:
    return Standing(was.epoch, was.turn, State.GONE, token)
