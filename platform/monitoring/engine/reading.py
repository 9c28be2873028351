"""Ask a series engine for what PostgreSQL keeps no longer. Only charts do: no report, verdict or rule reads an engine.

Nothing waits for it for long: an answer has two seconds, and after one that did not come nobody asks for a while.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode, urlsplit

import numpy as np
from django.conf import settings
from django.utils import timezone

from common.safe_http import Reply, Unreached
from monitoring.engine.endpoint import Endpoint
from monitoring.engine.figures import name_origin
from monitoring.engine.promql import Grid, Nonsense, Told, build_expression, read_answer
from monitoring.series.frames import Frame, list_kept
from monitoring.series.keys import Key
from monitoring.series.store import join_sources
from monitoring.series.tiers import HOURS

ASK_WITHIN_S = 2.0
MOST_BYTES = 8 << 20
REST_S = 15.0
"""How long nobody asks an engine after it did not answer."""
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}

_resting: dict[str, tuple[float, str]] = {}
"""Of this process, by address: until when it is not asked, and why."""


@dataclass(frozen=True)
class Older:
    """The part of a chart that PostgreSQL keeps no longer: what ends at `until`. fault: "" if an engine told of it;
    else nothing (it knows nothing), silent, refused or nonsense.
    """

    until: datetime
    fault: str = ""


@dataclass(frozen=True)
class EngineState:
    """Whether an engine answers now. why: refused, nonsense, or a reason of common.safe_http. status: its own."""

    answers: bool
    why: str = ""
    status: int | None = None
    took_ms: int | None = None


class Unanswered(Exception):
    """why, status: as EngineState has them."""

    def __init__(self, why: str, status: int | None = None):
        super().__init__(why)
        self.why, self.status = why, status


def add_older(frame: Frame, names: Mapping[Key, str], columns: Collection[str]) -> tuple[Frame, Older | None]:
    """Fill what is older than PostgreSQL keeps from an engine, where one is named; None if there is no such part.

    names: of cards their UUIDs, of machines and pools their names. What PostgreSQL still knows counts.
    """
    if frame.step_s < HOURS.step_s:  # a finer step reaches back to all that was asked for
        return frame, None
    kept_from = timezone.now() - list_kept()[HOURS]
    slots = min(-((frame.start - kept_from) // timedelta(seconds=frame.step_s)), frame.slots)
    if not settings.TESSERA_REMOTE_READ["url"] or not names or not columns or slots <= 0:
        return frame, None
    grid = Grid(frame.start, frame.step_s, slots)
    try:
        told = _ask(build_expression(names, columns, grid.step_s, name_origin()), names, grid)
    except Unanswered as failed:
        return frame, Older(grid.end, failed.why if failed.why in ("refused", "nonsense") else "silent")
    return _fill(frame, told, slots), Older(grid.end, "" if told else "nothing")


def ask_engine() -> EngineState:
    """Ask it for one number."""
    began = time.monotonic()
    try:
        _ask("vector(1)", {}, Grid(timezone.now(), 1, 1))
    except Unanswered as failed:
        return EngineState(False, failed.why, failed.status)
    return EngineState(True, took_ms=round(1000 * (time.monotonic() - began)))


def _ask(expression: str, names: Mapping[Key, str], grid: Grid) -> dict[Key, Told]:
    """Raises Unanswered. nocache: or VictoriaMetrics would shift the steps."""
    first_s = grid.start.timestamp() + grid.step_s
    asked = {
        "query": expression,
        "start": f"{first_s:.0f}",
        "end": f"{grid.end.timestamp():.0f}",
        "step": f"{grid.step_s}",
        "timeout": f"{ASK_WITHIN_S:.0f}s",
        "nocache": "1",
    }
    try:
        return read_answer(_post("/api/v1/query_range", asked).body, names, grid)
    except Nonsense:
        raise Unanswered("nonsense") from None


def _post(path: str, asked: Mapping[str, str]) -> Reply:
    """Return a good answer. Raises Unanswered."""
    endpoint = Endpoint(**settings.TESSERA_REMOTE_READ)
    until, why = _resting.get(endpoint.url, (0.0, ""))
    if time.monotonic() < until:
        raise Unanswered(why)
    parts = urlsplit(endpoint.url)
    url = parts._replace(path=f"{parts.path.rstrip('/')}{path}").geturl()
    try:
        reply = endpoint.send("POST", url, FORM, urlencode(asked).encode(), MOST_BYTES, ASK_WITHIN_S)
    except Unreached as unreached:
        _resting[endpoint.url] = (time.monotonic() + REST_S, unreached.why)
        raise Unanswered(unreached.why) from None
    if reply.status != 200:
        raise Unanswered("refused", reply.status)
    return reply


def _fill(frame: Frame, told: Mapping[Key, Told], slots: int) -> Frame:
    values, peaks, sources = dict(frame.values), dict(frame.peaks), dict(frame.sources)
    for key, one in told.items():
        empty = np.full((len(one.values), frame.slots), np.nan)
        for filled in (values, peaks):
            rows = filled.get(key, empty).copy()
            rows[:, :slots] = np.where(np.isnan(rows[:, :slots]), one.values, rows[:, :slots])
            filled[key] = rows
        both = [one.source, sources.get(key, one.source)]
        sources[key] = join_sources(min(both), max(both))
    return replace(frame, values=values, peaks=peaks, sources=sources)
