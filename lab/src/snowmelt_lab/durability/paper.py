"""What Blizzard says of its own model (section 3.2), and what its model says.

The paper: at 1 % a second the loss after 7 hours is "over 50%", at 0.01 % a second after two days
it is "under 0.002%". The first is true and says little: one half is passed after 38 minutes, and 7
hours leave one item in two thousand. The second is wrong: it is 0.0069 %, more than three times as
much.
"""

from typing import Final

import msgspec

from snowmelt_lab.durability.windows import Windows


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as printed: with this model, after so many hours, the loss is beyond this."""

    model: Windows
    hours: float
    loss: float
    printed: str
    holds: bool

    def finding(self) -> str:
        """The printed figure, and the right one, in a line.

        >>> print(CLAIMS[1].finding())
        the paper: under 0.002 % after 48 h; its model: 0.0069 %
        """
        right = percent(self.model.loss(self.hours))
        return f"the paper: {self.printed} after {self.hours:g} h; its model: {right}"


CLAIMS: Final = (
    Claim(
        model=Windows(fail_per_second=0.01, window=20, replicas=3),
        hours=7,
        loss=0.5,
        printed="over 50 %",
        holds=True,
    ),
    Claim(
        model=Windows(fail_per_second=0.0001, window=20, replicas=3),
        hours=48,
        loss=0.00002,
        printed="under 0.002 %",
        holds=False,
    ),
)


def percent(chance: float) -> str:
    """A chance as a person reads it, two digits of what is rare, and never 100 % of what is not.

    >>> percent(0.0000691), percent(0.9995), percent(0.25), percent(0.0)
    ('0.0069 %', '99.95 %', '25 %', '0 %')
    """
    if 0.9 < chance < 1:
        return f"{100 - float(f'{(1 - chance) * 100:.1g}'):.10g} %"
    return f"{float(f'{chance * 100:.2g}'):.10g} %"
