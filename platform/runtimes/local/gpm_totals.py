"""Totals of what GPM tells, where many processes look in turn: each knows the mean since its own last look. Pure."""

from collections.abc import Collection, Mapping

from agent.gpu.counters.gpm import Means, add_means

UNTIL = "until_s"
"""In the totals: as of when they are, by the clock of the ticks."""
SLACK_S = 1.0
"""Between a tick's moment and that of its look."""


def follow_means(totals: Mapping[str, float], means: Means | None, now_s: float) -> tuple[dict[str, float], Collection]:
    """Return the totals moved on to now, and which of them are known now.

    A mean counts for the time since the totals' end, as far as it reaches back; of a longer time nothing is known.
    """
    if means is None:
        return dict(totals), ()
    since_s = now_s - totals[UNTIL] if UNTIL in totals else means.span_s
    if not 0 <= since_s <= means.span_s + SLACK_S:
        return {**totals, UNTIL: now_s}, ()
    return {**add_means(totals, Means(since_s, means.values)), UNTIL: now_s}, means.values.keys()
