"""A small world, and every way on from each of its states. The rules stand in the package.

A state is a tuple of numbers, times and counts; all that is large lies in tables, by number.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from snowmelt.core.instant import Instant, later, seconds, spelled
from snowmelt.core.names import NodeId, address_of
from snowmelt.core.node import Effect, Event, Expired, Received, Send
from snowmelt_world.explore.machines import Machines, Process, Step
from snowmelt_world.explore.small import IDLE, Act, Look, SmallLife
from snowmelt_world.explore.value import Portrait
from snowmelt_world.world import Broken

STALL: Final = seconds(4)
"""A link that stands goes on by then."""

INJURIES: Final = {
    "crash": "a process is killed, and is back within a second",
    "lose": "a message is lost",
    "repeat": "a message comes twice",
    "overtake": "a message overtakes the one before it",
    "stall": "what goes from one to another stands still for up to four seconds",
}

T = TypeVar("T", bound=Hashable)


class Table(Generic[T]):
    """Values by number; equal ones have one number.

    >>> table = Table()
    >>> table.number("a"), table.number("b"), table.number("a"), table[1]
    (0, 1, 0, 'b')
    """

    def __init__(self) -> None:
        self._values: list[T] = []
        self._numbers: dict[T, int] = {}

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def number(self, value: T) -> int:
        """Of this value, met before or not."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found


class State(NamedTuple):
    now: Instant
    processes: tuple[int, ...]
    links: tuple[tuple[int, ...], ...]
    """What is on its way, oldest first, by `SmallWorld.pairs`."""
    scene: int
    done: int = 0
    """How many injuries were done, of those that are to come."""
    stalls: tuple[tuple[int, Instant], ...] = ()
    """Which links stand still, and since when."""


class Move(NamedTuple):
    words: str
    state: State | None
    """Where it leads; nowhere when it breaks something."""
    broken: str = ""
    steps: tuple[Step, ...] = ()
    """What processes did, for the story."""


class SmallWorld:
    def __init__(self, life: SmallLife, injuries: tuple[str, ...]) -> None:
        self.life = life
        self.machines = Machines(life.build, Portrait(life.left_out))
        self.injuries = injuries
        self._places = {node: at for at, node in enumerate(life.nodes)}
        self.pairs = [(a, b) for a in life.nodes for b in life.nodes if a != b]
        self._at = {pair: at for at, pair in enumerate(self.pairs)}
        self._processes: Table[Process] = Table()
        self._messages: Table[Any] = Table()
        self._scenes: Table[Any] = Table()

    def opening(self) -> State:
        """Nobody has begun, or all that the prelude names is done."""
        processes = tuple(self._processes.number(Process(node)) for node in self.life.nodes)
        scene = self._scenes.number(self.life.opening())
        state = State(Instant(0), processes, ((),) * len(self.pairs), scene)
        for words in self.life.prelude:
            state = self._idle(state) if words == IDLE else self._quiet(self._made(state, words))
        return state

    def _idle(self, state: State) -> State:
        """Time has passed, until no timer is set any more."""
        while (at := min(self._alarms(state), default=None)) is not None:
            state = self._quiet(state._replace(now=at))
        return state

    def _alarms(self, state: State) -> list[Instant]:
        running = [one for one in self._look(state).processes if one.runs]
        return [at for process in running for _, at in process.timers]

    def _made(self, state: State, words: str) -> State:
        after = next(one.state for one in self.moves(state) if one.words == words)
        assert after is not None, f"the prelude breaks something: {words}"
        return after

    def _quiet(self, state: State) -> State:
        """Whatever may not wait has been done."""
        while (move := next(self._at_once(state), None)) is not None:
            assert move.state is not None, f"the prelude breaks something: {move.broken}"
            state = move.state
        return state

    def moves(self, state: State) -> Iterator[Move]:
        """Every way on, always in the same order."""
        urgent = False
        dues: list[Instant] = []
        for move in self._at_once(state):
            urgent = True
            yield move
        for due, move in self._at_leisure(state):
            urgent = urgent or due <= state.now
            dues.append(due)
            yield move
        yield from self._injuries(state)
        if not urgent:
            yield from self._waiting(state, dues)

    # --- what happens of itself -------------------------------------------------------------------

    def _at_once(self, state: State) -> Iterator[Move]:
        """Whatever may not wait: messages, disks, timers that are due."""
        stalled = [link for link, _ in state.stalls]
        for link, row in enumerate(state.links):
            if not row or link in stalled:
                continue
            source, target = self.pairs[link]
            if self._process(state, target).runs:
                rest = _replaced(state.links, link, row[1:])
                event = Received(source, self._messages[row[0]])
                after = state._replace(links=rest)
                yield self._given(f"{source} > {target}", after, target, (event,))
        for number in state.processes:
            process = self._processes[number]
            if not process.runs:
                continue
            if process.asked:
                step = self.machines.flush(process, state.now)
                yield self._moved(f"{process.node} flushes", state, step)
            for timer, at in process.timers:
                if at <= state.now:
                    yield self._fired(state, process, timer)

    def _fired(self, state: State, process: Process, timer: Any) -> Move:
        timers = tuple(one for one in process.timers if one[0] is not timer)
        step = self.machines.step(process._replace(timers=timers), Expired(timer), state.now)
        return self._moved(f"{process.node} {timer.value}", state, step)

    def _at_leisure(self, state: State) -> Iterator[tuple[Instant, Move]]:
        """What may be put off until some time."""
        look = self._look(state)
        for act in self.life.acts(look):
            after = state._replace(scene=self._scenes.number(act.scene))
            yield act.until, self._done(act, after)
        for process in look.processes:
            if not process.runs and self.life.returns(look, process.node):
                due = later(process.since, self.life.back_within) if process.life else process.since
                yield due, self._started(state, process)
        for link, since in state.stalls:
            left = tuple(one for one in state.stalls if one[0] != link)
            words = f"resume {self._named(link)}"
            yield later(since, STALL), Move(words, state._replace(stalls=left))

    def _done(self, act: Act, after: State) -> Move:
        if act.node is None:
            return Move(act.words, after)
        if act.ends:
            ended = self.machines.end(self._process(after, act.node), 0, after.now)
            links = self._unheard(after.links, act.node)
            return self._ended(act.words, self._put(after, ended)._replace(links=links), act.node)
        return self._given(act.words, after, act.node, act.events)

    def _unheard(
        self, links: tuple[tuple[int, ...], ...], node: NodeId
    ) -> tuple[tuple[int, ...], ...]:
        """Without what is on its way to a node."""
        return tuple(
            () if pair[1] == node else row for pair, row in zip(self.pairs, links, strict=True)
        )

    def _started(self, state: State, process: Process) -> Move:
        node, words = process.node, f"start {process.node}"
        step = self.machines.start(process, state.now)
        move = self._moved(words, state, step)
        if move.state is None:
            return move
        scene, events = self.life.started(self._look(move.state), node)
        after = move.state._replace(scene=self._scenes.number(scene))
        given = self._given(words, after, node, events)
        return given._replace(steps=move.steps + given.steps)

    def _waiting(self, state: State, dues: list[Instant]) -> Iterator[Move]:
        """Nothing is left to be done now: time passes, unless all is at rest."""
        look = self._look(state)
        why = self.life.unsettled(look)
        if not why:
            yield from self._rest(state, look)
            return
        alarms = [*self._alarms(state), *self.life.alarms(look), *dues]
        soonest = min(alarms, default=self.life.horizon)
        if soonest >= self.life.horizon:
            text = f"{why}, after {spelled(self.life.horizon)}"
            yield Move(f"until {spelled(self.life.horizon)}", None, text)
            return
        yield Move(f"until {spelled(soonest)}", state._replace(now=soonest))

    def _rest(self, state: State, look: Look) -> Iterator[Move]:
        def ask(node: NodeId, event: Event[Any]) -> list[Effect[Any]]:
            return list(self.machines.step(look.of(node), event, state.now).effects)

        try:
            self.life.judge(look, ask)
        except Broken as broken:
            yield Move("rest", None, str(broken))

    # --- injuries ---------------------------------------------------------------------------------

    def _injuries(self, state: State) -> Iterator[Move]:
        """The next of those that are to come."""
        if state.done == len(self.injuries):
            return
        kind, after = self.injuries[state.done], state._replace(done=state.done + 1)
        if kind == "crash":
            for node in self.life.mortal:
                if self._process(state, node).runs:
                    yield from self._crashes(after, self._process(state, node))
            return
        for link, row in enumerate(state.links):
            if row:
                yield from self._hurt_link(kind, after, link, row)

    def _hurt_link(
        self, kind: str, state: State, link: int, row: tuple[int, ...]
    ) -> Iterator[Move]:
        words = f"{kind} {self._named(link)}"
        stalled = any(one == link for one, _ in state.stalls)
        match kind:
            case "lose":
                yield Move(words, state._replace(links=_replaced(state.links, link, row[1:])))
            case "repeat":
                yield Move(
                    words, state._replace(links=_replaced(state.links, link, (row[0], *row)))
                )
            case "overtake" if len(row) > 1:
                turned = (row[1], row[0], *row[2:])
                yield Move(words, state._replace(links=_replaced(state.links, link, turned)))
            case "stall" if not stalled:
                stalls = (*state.stalls, (link, state.now))
                yield Move(words, state._replace(stalls=tuple(sorted(stalls))))
            case _:
                pass

    def _crashes(self, state: State, process: Process) -> Iterator[Move]:
        """With each beginning of what its disk was asked; its mail is lost, or comes late."""
        lost = self._unheard(state.links, process.node)
        stalls = tuple(one for one in state.stalls if self.pairs[one[0]][1] != process.node)
        for kept in range(len(process.asked) + 1):
            ended = self.machines.end(process, kept, state.now)
            words = f"crash {process.node}" + (f" with {kept} kept" if process.asked else "")
            after = self._put(state, ended)
            if lost != state.links and self.life.mail_waits:
                yield self._ended(f"{words}, its mail waits", after, process.node)
            yield self._ended(words, after._replace(links=lost, stalls=stalls), process.node)

    def _ended(self, words: str, state: State, node: NodeId) -> Move:
        try:
            scene = self.life.ended(self._look(state), node)
        except Broken as broken:
            return Move(words, None, str(broken))
        return Move(words, state._replace(scene=self._scenes.number(scene)))

    # --- one step ---------------------------------------------------------------------------------

    def _given(
        self, words: str, state: State, node: NodeId, events: tuple[Event[Any], ...]
    ) -> Move:
        move = Move(words, state)
        for event in events:
            assert move.state is not None
            step = self.machines.step(self._process(move.state, node), event, state.now)
            before = move.steps
            move = self._moved(words, move.state, step)
            move = move._replace(steps=before + move.steps)
            if move.state is None:
                break
        return move

    def _moved(self, words: str, state: State, step: Step) -> Move:
        """A process has taken a step: what it says goes on its way."""
        process = step.process
        steps = (step,)
        if step.broken:
            return Move(words, None, f"{process.node}: {step.broken}", steps)
        after = self._put(state, process)
        told: list[Effect[Any]] = []
        links = list(after.links)
        for effect in step.outside:
            if not isinstance(effect, Send):
                told.append(effect)
                continue
            target = _target(effect.target)
            if target not in self._places:
                told.append(effect)
            elif self._process(after, target).runs:
                link = self._at[process.node, target]
                links[link] = (*links[link], self._messages.number(effect.message))
        after = after._replace(links=tuple(links))
        try:
            if not process.runs:  # it halted
                scene = self.life.ended(self._look(after), process.node)
                after = after._replace(scene=self._scenes.number(scene))
            if told:
                scene = self.life.saw(self._look(after), process.node, told)
                after = after._replace(scene=self._scenes.number(scene))
        except Broken as broken:
            return Move(words, None, str(broken), steps)
        if process.asked and self.life.is_quick(process):
            move = self._moved(words, after, self.machines.flush(process, state.now))
            return move._replace(steps=steps + move.steps)
        return Move(words, after, "", steps)

    # --- what is where ----------------------------------------------------------------------------

    def _process(self, state: State, node: NodeId) -> Process:
        return self._processes[state.processes[self._places[node]]]

    def _put(self, state: State, process: Process) -> State:
        number = self._processes.number(process)
        at = self._places[process.node]
        return state._replace(processes=_replaced(state.processes, at, number))

    def _look(self, state: State) -> Look:
        processes = tuple(self._processes[number] for number in state.processes)
        return Look(self._scenes[state.scene], state.now, processes, state.done > 0)

    def _named(self, link: int) -> str:
        source, target = self.pairs[link]
        return f"{source} > {target}"


def _target(name: NodeId) -> NodeId:
    address = address_of(name)
    return name if address is None else NodeId(address.host)


def _replaced(row: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*row[:at], value, *row[at + 1 :])
