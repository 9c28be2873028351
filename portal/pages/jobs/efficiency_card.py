"""View model of the efficiency card: how well a job uses what it holds, and what to ask for instead."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from common.resources import parse_gpu
from monitoring.usage.at_once import judge_job
from monitoring.usage.figures import load_job_use
from monitoring.usage.job_use import JobUse
from monitoring.usage.verdict import Verdict
from portal.pages.jobs.view_model import JobView
from portal.wording.efficiency import (
    UNJUDGED,
    Meter,
    describe_advice,
    describe_coverage,
    describe_hours,
    describe_verdict,
    list_meters,
    write_advice,
)
from portal.wording.resources import describe_gpu


@dataclass(frozen=True)
class AdviceRow:
    """What holds of the job. apply: the label of the one click. resize: the size to give its slices; else href is a
    copy of the job with the field changed; both "" if there is nothing to apply.
    """

    words: str
    cost: str = ""
    advice: str = ""
    apply: str = ""
    resize: str = ""
    href: str = ""


@dataclass(frozen=True)
class EfficiencyCard:
    """judgement: (tone, icon, words) of its chip."""

    judgement: tuple[str, str, str]
    first: AdviceRow
    more: list[AdviceRow]
    meters: list[Meter]
    coverage: str
    simulated: bool


def load_efficiency_card(view: JobView) -> EfficiencyCard | None:
    use = load_job_use(view.job)
    return None if use is None else build_efficiency_card(view, use)


def build_efficiency_card(view: JobView, use: JobUse) -> EfficiencyCard:
    verdicts = judge_job(view.job, use)
    first, *more = [_build_row(view, verdict) for verdict in verdicts]
    simulated = any(card.source == "simulated" for card in use.cards)
    return EfficiencyCard(_judge(verdicts), first, more, list_meters(use), describe_coverage(use), simulated)


def _judge(verdicts: list[Verdict]) -> tuple[str, str, str]:
    if verdicts[0].code in UNJUDGED:
        return "stale", "question-mark", _("Not judged")
    if verdicts[0].code == "good":
        return "done", "check", _("Good use")
    if any(verdict.gpu_hours for verdict in verdicts):
        return "idle", "alert-triangle", _("Low use")
    return "done", "check", _("Good use")


def _build_row(view: JobView, verdict: Verdict) -> AdviceRow:
    running = not view.has_ended
    words = describe_verdict(verdict, running=running)
    cost = describe_hours(verdict.gpu_hours) if verdict.gpu_hours >= 0.005 else ""
    if verdict.advice is None:
        return AdviceRow(words, cost)
    value, advice = write_advice(verdict.advice), describe_advice(verdict, running=running)
    if running and verdict.code == "too_much_memory" and view.may_resize:
        size = describe_gpu(parse_gpu(value))
        return AdviceRow(words, cost, advice, _("Resize to %(size)s now") % {"size": size}, resize=value)
    changed = urlencode({"from": view.id, verdict.advice.field: value})
    return AdviceRow(words, cost, advice, _("Apply to a copy"), href=f"{reverse('job_new')}?{changed}")
