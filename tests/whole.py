"""How much a test plays of what is large by nature: a part of it, or all with TESSERA_WHOLE=1 (bin/bench promises)."""

import os

WHOLE = os.environ.get("TESSERA_WHOLE") == "1"


def part_of(whole: int, part: int) -> int:
    return whole if WHOLE else part
