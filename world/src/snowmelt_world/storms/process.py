"""A process of clients: `python -m snowmelt_world.storms.process SETTING ROLE NUMBER LIFE`."""

import sys

import msgspec

from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.family import family_of
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.words import StdinWords


def main() -> None:
    text, role, number, life = sys.argv[1:]
    setting = msgspec.json.decode(text, type=StormSetting)
    mine = ClientLife(role, int(number), int(life))
    words = StdinWords()
    family = family_of(setting.kind)
    (setting.folder / f"{mine.name}.up").touch()
    family.live(setting, mine, words)


if __name__ == "__main__":
    main()
