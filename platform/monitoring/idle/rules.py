"""Which ladder a job is on: its pool's rule, and what its job file asks for, where that is stricter."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from accounts.models import User
from accounts.permissions import require
from common.errors import FieldError, InvalidInput, NotFound
from common.locks import database_now
from events.record_and_publish import record, record_change
from jobs.jobfile.spec import read_idle
from jobs.models import Job, JobKind
from monitoring.idle.ladder import Ladder
from monitoring.idle.rungs import STRICTER, Rung, Then
from monitoring.models import IdleRule

RUNGS = {"note_min": Rung.NOTED, "remind_min": Rung.REMINDED, "warn_min": Rung.WARNED, "act_min": Rung.ACTED}
DEFAULTS: dict[str, dict] = {
    JobKind.INTERACTIVE: {"note_min": 30, "warn_min": 45, "act_min": 60, "then": Then.RELEASE_GPU},
    JobKind.BATCH: {"note_min": 30, "remind_min": 120, "then": Then.TELL},
}
"""Where no pool, and not the installation, has a rule."""
LEAST_MIN, MOST_MIN = 5, 24 * 60
WARNED_S = 15 * 60
"""How long before an act a job file's own rule warns; of short ones a third."""


@dataclass(frozen=True)
class Rules:
    """by_pool: the rules of {(pool's id or None, kind)}."""

    by_pool: Mapping[tuple[int | None, str], IdleRule]

    def find_rule(self, pool_id: int, kind: str) -> IdleRule | None:
        """Return the rule of a pool, else that of all pools, else the default; None for kinds that have none."""
        found = self.by_pool.get((pool_id, kind)) or self.by_pool.get((None, kind))
        return found or (IdleRule(kind=kind, **DEFAULTS[kind]) if kind in DEFAULTS else None)

    def find_ladder(self, job: Job) -> Ladder | None:
        rule = self.find_rule(job.pool_id, job.kind)
        if rule is None:
            return None
        ladder = build_ladder(rule)
        if not (asked := job.spec.get("idle")):
            return ladder
        wish = read_idle(asked)
        return tighten(ladder, wish.for_s, Then(wish.then))

    def find_change(self, job: Job) -> datetime | None:
        """Return when the rule of a job was last changed; None for one that never was."""
        rule = self.find_rule(job.pool_id, job.kind)
        return rule.changed_at if rule is not None and rule.pk is not None else None


def load_rules(rows: Iterable[IdleRule] | None = None) -> Rules:
    rows = IdleRule.objects.all() if rows is None else rows
    return Rules({(row.pool_id, row.kind): row for row in rows})


def build_ladder(rule: IdleRule) -> Ladder:
    after_s = {rung: 60 * minutes for name, rung in RUNGS.items() if (minutes := getattr(rule, name)) is not None}
    then = Then(rule.then)
    if then == Then.TELL:
        after_s.pop(Rung.ACTED, None)
    return Ladder(after_s, then if Rung.ACTED in after_s else Then.TELL)


def tighten(ladder: Ladder, for_s: int, then: Then) -> Ladder:
    """Return a ladder that is nowhere laxer than the pool's, with what a job file asks for."""
    act_s = min(for_s, ladder.after_s.get(Rung.ACTED, for_s))
    if then == Then.TELL:
        return Ladder({**ladder.after_s, Rung.NOTED: min(for_s, ladder.after_s[Rung.NOTED])}, ladder.then)
    warn_s = min(act_s - min(WARNED_S, act_s // 3), ladder.after_s.get(Rung.WARNED, act_s))
    after_s = {Rung.NOTED: min(ladder.after_s[Rung.NOTED], act_s // 2), Rung.WARNED: warn_s, Rung.ACTED: act_s}
    if ladder.after_s.get(Rung.REMINDED, act_s) < warn_s:
        after_s[Rung.REMINDED] = ladder.after_s[Rung.REMINDED]
    return Ladder(after_s, max(then, ladder.then, key=lambda one: STRICTER[one]))


def list_rules() -> list[IdleRule]:
    """Return the defaults that nobody set, which have no pk, and the rules of pools and of all pools."""
    rows = list(IdleRule.objects.select_related("pool"))
    known = load_rules(rows)
    general: list[IdleRule] = []
    for kind in IdleRule.KINDS:
        rule = known.find_rule(0, kind)
        if rule is not None and rule.pk is None:
            general.append(rule)
    return [*general, *rows]


def find_saved_rule(rule_id: int) -> IdleRule:
    rule = IdleRule.objects.select_related("pool").filter(pk=rule_id).first()
    if rule is None:
        raise NotFound(kind="idle_rule", id=str(rule_id))
    return rule


@transaction.atomic
def save_rule(*, actor: User, rule: IdleRule) -> IdleRule:
    """Create or replace a pool's rule for one kind; what runs begins a full ladder by it. Raises InvalidInput."""
    require(actor, "idle.rule")
    check_rule(rule)
    before = IdleRule.objects.select_for_update(of=("self",)).filter(pool=rule.pool, kind=rule.kind).first()
    rule.pk = before.pk if before else None
    rule.changed_at = database_now()
    rule.save()
    record_change(rule, before, IdleRule.FIELDS, "changed" if before else "made", actor=actor.as_actor)
    return rule


@transaction.atomic
def delete_rule(*, actor: User, rule: IdleRule) -> None:
    """Let the rule of all pools, or the default, hold again."""
    require(actor, "idle.rule")
    record(rule, "deleted", actor=actor.as_actor)
    IdleRule.objects.filter(pk=rule.pk).delete()


def check_rule(rule: IdleRule) -> None:
    """Raise InvalidInput for a rule that makes no sense."""
    errors, before = [], 0
    for name in RUNGS:
        minutes = getattr(rule, name)
        if minutes is None:
            continue
        if not LEAST_MIN <= minutes <= MOST_MIN:
            errors.append(FieldError(f"/{name}", "out_of_range", {"min": LEAST_MIN, "max": MOST_MIN, "got": minutes}))
        elif minutes <= before:
            errors.append(FieldError(f"/{name}", "idle_not_in_order", {"min": before}))
        before = max(before, minutes)
    if rule.then != Then.TELL and rule.act_min is None:
        errors.append(FieldError("/act_min", "idle_then_without_time"))
    if rule.then != Then.TELL and rule.warn_min is None:
        errors.append(FieldError("/warn_min", "idle_act_without_warning"))
    if rule.then == Then.RELEASE_GPU and rule.kind != JobKind.INTERACTIVE:
        errors.append(FieldError("/then", "idle_only_notebooks"))
    if errors:
        raise InvalidInput(errors)
