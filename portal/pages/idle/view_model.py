"""What the pages show of what is held and idle."""

from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _

from accounts.models import User
from cluster.models import Pool
from common.resources import show_gpu
from jobs.models import JobKind
from monitoring.idle.rules import build_ladder, load_rules
from monitoring.idle.rungs import Rung, Then
from monitoring.models import Exemption, IdleRule
from portal.access.idle_people import may_see_people
from portal.access.idle_rows import IdleRow, IdleTotals, list_exemptions, list_idle_rows, load_totals
from portal.pages.jobs.view_model import JobRights
from portal.wording.monitoring.idle import describe_steps, name_kind

DOTS = (Rung.NOTED, Rung.REMINDED, Rung.WARNED, Rung.ACTED)


@dataclass(frozen=True)
class RuleLine:
    """A rule for one kind of work, in words. row.pk: None for a default, which nobody set. pool: where it holds."""

    row: IdleRule
    pool: str
    kind: str
    steps: str
    then: str

    @property
    def name(self) -> str:
        return f"{self.pool}, {self.kind}"


@dataclass(frozen=True)
class ExemptLine:
    row: Exemption
    name: str
    may_end: bool


class IdlePage:
    dots = DOTS

    def __init__(self, user: User):
        self.user = user

    @property
    def shows_people(self) -> bool:
        """Whether the user may see who is away, on a page of its own."""
        return may_see_people(self.user)

    @cached_property
    def exemptions(self) -> list[ExemptLine]:
        return list_exempt(self.user)

    @cached_property
    def rows(self) -> list[IdleRow]:
        return list_idle_rows(self.user)

    @cached_property
    def totals(self) -> IdleTotals:
        return load_totals()

    @property
    def answer(self) -> str:
        """Say how much of what is held is idle."""
        idle = show_gpu(self.totals.idle_milli)
        if not self.totals.held_milli:
            return _("No card is held now.")
        held = show_gpu(self.totals.held_milli)
        if not self.rows:
            return _("%(held)s GPU is held, and nothing of it is idle.") % {"held": held}
        return _("%(idle)s of %(held)s GPU that is held is idle.") % {"idle": idle, "held": held}

    @property
    def idle_percent(self) -> int:
        return round(100 * self.totals.idle_milli / self.totals.held_milli) if self.totals.held_milli else 0

    @cached_property
    def rules(self) -> list[RuleLine]:
        rules = load_rules()
        pools = [(pool.pk, pool.name) for pool in Pool.objects.order_by("name")]
        lines = []
        for pk, name in pools:
            for kind in (JobKind.INTERACTIVE, JobKind.BATCH):
                rule = rules.find_rule(pk, kind)
                if rule is not None:
                    lines.append(describe_rule(rule, name))
        return lines


def describe_rule(rule: IdleRule, pool: str) -> RuleLine:
    ladder = build_ladder(rule)
    return RuleLine(rule, pool, name_kind(rule.kind), describe_steps(ladder), str(Then(ladder.then).label))


def list_exempt(user: User) -> list[ExemptLine]:
    """Return what the user can see that no rule acts on for a while."""
    rights, lines = JobRights(user), []
    for row in list_exemptions(user):
        job = row.job or (row.notebook.job if row.notebook else None)
        name = row.notebook.name if row.notebook else (job.name or job.public_id) if job else ""
        lines.append(ExemptLine(row, name, job is not None and rights.may("idle.snooze", job)))
    return lines
