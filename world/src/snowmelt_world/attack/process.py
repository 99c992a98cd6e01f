"""A process of an attack: `python -m snowmelt_world.attack.process SETTING PART NUMBER`.

It does its part until it is asked to stop, or until whoever started it is gone.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

import msgspec

from snowmelt_world.attack.setting import AttackSetting, Kind
from snowmelt_world.attack.tally import Tally
from snowmelt_world.storms.words import StdinWords

HONEST: Final = "honest"
IDLE: Final = "idle"
"""Says nothing to anybody, and takes all of the processor that it may have."""
Attack = Callable[[AttackSetting, int, Tally, Callable[[], bool]], None]


def main() -> None:
    """Plays one part."""
    text, part, number = sys.stdin.readline(), *sys.argv[1:]
    setting = msgspec.json.decode(text, type=AttackSetting)
    words = StdinWords()
    if part == HONEST:
        from snowmelt_world.attack.honest import work  # noqa: PLC0415  # attackers need it not

        work(setting, words)
        return
    if part == IDLE:
        while not words.stop.is_set():
            pass
        return
    kind = Kind(part)
    attack: Attack = import_module(f"snowmelt_world.attack.{kind}").attack
    tally = Tally(setting.folder / f"{kind}-{number}.tally")

    def goes_on() -> bool:
        done = setting.inputs and tally.counts["inputs"] >= setting.inputs // setting.attackers
        return not words.stop.is_set() and not done

    try:
        attack(setting, int(number), tally, goes_on)
    finally:
        tally.close()


if __name__ == "__main__":
    main()
