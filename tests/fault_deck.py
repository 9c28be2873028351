"""Which fault befalls which request: a deck for each kind of request, in which every fault lies so many times.

While cards are left each request draws one, a fault or a blank; afterwards chance alone decides. So whoever sends
requests enough has met everything, and not by luck.
"""

import random
from collections.abc import Mapping

CALLS: dict[str, float] = {  # of any request but a watch
    "hang": 0.002,  # no answer until the client has had enough
    "reset": 0.01,  # nothing happened, and no answer
    "lost": 0.02,  # it happened, and no answer
    "half": 0.01,  # it happened, and half an answer
    "500": 0.01,
    "502": 0.01,
    "503": 0.005,
    "504": 0.01,
    "500_done": 0.01,  # it happened, and the answer is an error
    "429": 0.005,
    "401": 0.001,
    "403": 0.001,
}
CHANCES: dict[str, dict[str, float]] = {
    "create": CALLS | {"exists": 0.02, "quota": 0.003, "422": 0.02},  # of pods
    "read": CALLS | {"404": 0.01, "410": 0.005},
    "list": CALLS | {"410": 0.05, "stale": 0.1},
    "change": CALLS | {"conflict": 0.05, "404": 0.01},
    "delete": CALLS | {"conflict": 0.02, "404": 0.02},
    "watch": {"reset": 0.05, "500": 0.05, "429": 0.03, "410": 0.05, "silent": 0.15, "cut": 0.3, "gone_inside": 0.1},
    "event": {"twice": 0.03, "swapped": 0.03},
    "deleted": {"late": 0.1},
}
SHARE, SHARES = 0.25, {"delete": 0.5}
"""Of a deck's cards so many at least are faults: more where requests are few, and each is all of a deed."""


class Deck:
    """chances: {fault: chance}, for when the cards are dealt. times: each fault lies in it as often."""

    def __init__(self, dice: random.Random, chances: Mapping[str, float], times: int, share: float = SHARE):
        self._dice, self._chances = dice, chances
        faults = [fault for fault in chances for _ in range(times)]
        blanks = round(len(faults) * (1 / max(share, sum(chances.values())) - 1))
        self._cards = [*faults, *[""] * blanks]
        dice.shuffle(self._cards)

    def draw(self) -> str:
        """A fault, "" for none."""
        if self._cards:
            return self._cards.pop()
        none = 1 - sum(self._chances.values())
        return self._dice.choices([*self._chances, ""], [*self._chances.values(), none])[0]

    def give_back(self, fault: str) -> None:
        """It could not be done: the next one gets it."""
        self._cards.append(fault)
