"""Remember which drafts are possible: people submit many alike, and checks load the cluster.

Verdicts are kept for KEPT_S while other rows stay the same; nodes and cards are read once in REFRESH_S.
"""

import json
import time
from collections.abc import Callable
from functools import cache

from django.db.models import BigIntegerField, Func

from common.errors import Impossible
from jobs.submit import Draft
from scheduler.loading.json_rows import Statement, build_sums, load_sums
from scheduler.loading.row_cache import ROW_VERSION, list_tables

KEPT_S = 60.0
REFRESH_S = 1.0
MOST = 10_000
MACHINES = {"nodes", "gpus"}
OF_WORK = {"queue", "holders", "holdings"}
"""Tables that change often and never make a job impossible."""

State = dict[str, tuple[int, str | None]]
CachedChecks = dict[tuple[object, ...], tuple[float, Impossible | None]]
_last: tuple[State, CachedChecks] = {}, {}
"""Per process: table states, and {draft: (known until, why it is impossible)}."""
_machines: tuple[float, State] = -REFRESH_S, {}
"""Per process: when nodes and cards were last read, and their state."""


def check_once(draft: Draft, judge: Callable[[Draft], None]) -> None:
    """Call `judge`, which may raise Impossible, unless a similar draft was judged recently.

    What is impossible in the pool that a person named is judged each time; else other pools may suit, and each submit
    would ask again.
    """
    checks, key = _load_checks(), key_of(draft)
    until, refusal = checks.get(key, (0.0, None))
    if until < time.monotonic() or (refusal is not None and draft.spec.pool):
        refusal = _judge(draft, judge)
        checks[key] = time.monotonic() + KEPT_S, refusal
    if refusal is not None:
        raise refusal.with_traceback(None)


def _judge(draft: Draft, judge: Callable[[Draft], None]) -> Impossible | None:
    try:
        judge(draft)
    except Impossible as refusal:
        return refusal
    return None


def _load_checks() -> CachedChecks:
    """Return remembered drafts, none if rows changed."""
    global _last
    state = load_sums(_statement(machines=False)) | _machines_now()
    if state != _last[0] or len(_last[1]) > MOST:
        _last = state, {}
    return _last[1]


def key_of(draft: Draft) -> tuple[object, ...]:
    spec = draft.spec
    times = spec.kind, draft.preemptible, spec.time_s, spec.max_time_s, spec.priority
    return draft.team.pk, draft.user.pk, draft.pool.pk, json.dumps(draft.gang), *times


def _machines_now() -> State:
    global _machines
    now = time.monotonic()
    looked_at, state = _machines
    if now - looked_at >= REFRESH_S:
        state = load_sums(_statement(machines=True))
        _machines = now, state
    return state


def clear_cache() -> None:
    """Drop this process's memory of drafts."""
    global _last, _machines
    _last, _machines = ({}, {}), (-REFRESH_S, {})


@cache
def _statement(*, machines: bool) -> Statement:
    told = {name: rows for name, (rows, _) in list_tables().items() if name not in OF_WORK}
    tables = {name: rows for name, rows in told.items() if (name in MACHINES) == machines}
    return build_sums({name: (rows, _version_of(rows.model._meta.db_table)) for name, rows in tables.items()})


def _version_of(table: str) -> Func:
    """Return a row version that differs for two writes of one transaction."""
    version = f'({ROW_VERSION.format(table=table)} << 24) + "{table}".cmin::text::bigint'
    return Func(template=version, output_field=BigIntegerField())
