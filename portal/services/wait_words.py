"""What a waking service waits for, in words: for its page, its API and its callers."""

from dataclasses import dataclass
from math import ceil

from django.utils.translation import gettext as _

from common.steady_clock import steady_now
from jobs.models import Job
from jobs.reason_messages import describe_wait
from jobs.states import JobState
from portal.wording.errors import describe_stored_refusal
from portal.wording.starts import describe_start
from scheduler.preview.stored_forecasts import load_forecasts
from services.models import Service

USUAL_S = 10
LONGEST_S = 3600


@dataclass(frozen=True)
class Wait:
    """words: why it does not answer yet. job: its first replica's, "" if it has none. retry_s: when to ask again."""

    words: str
    job: str = ""
    position: int | None = None
    of: int | None = None
    starts: str = ""
    retry_s: int = USUAL_S


def describe_waking(service: Service) -> Wait:
    """Say what keeps a service from answering, by the replica that is nearest to it."""
    replicas = service.replicas.filter(draining_at=None, revision=service.newest).select_related("job__pool")
    jobs = [one.job for one in replicas if not one.job.is_final]
    running = [job for job in jobs if job.state != JobState.QUEUED]
    if running:
        started = running[0].state == JobState.RUNNING
        words = _("A replica runs, and its program is not ready yet.") if started else _("A replica is being started.")
        return Wait(words, running[0].public_id)
    if jobs:
        return _describe_queued(jobs[0])
    why = service.newest.why
    if why and why.get("code") != "crashed":
        return Wait(describe_stored_refusal(why))
    if why:
        return Wait(_("Its last replica ended by itself; another one is started in a while."), why["job"])
    return Wait(_("A replica is about to be queued."))


def _describe_queued(job: Job) -> Wait:
    told = load_forecasts([job]).get(job.pk)
    starts = describe_start(told)
    parts = []
    if job.wait_position:
        place = {"position": job.wait_position, "of": job.wait_of, "pool": job.told_pool_name}
        parts.append(_("Its replica is number %(position)s of %(of)s in the queue of %(pool)s.") % place)
    parts += [_("It waits: %(reason)s") % {"reason": describe_wait(reason)} for reason in job.wait_reasons[:1]]
    if starts:
        parts.append(_("It is expected to start %(when)s.") % {"when": starts})
    likely = told.p50 or told.p10 if told else None
    retry_s = USUAL_S if likely is None else min(max(ceil((likely - steady_now()).total_seconds()), 1), LONGEST_S)
    words = " ".join(parts) or _("Its replica waits in the queue.")
    return Wait(words, job.public_id, job.wait_position, job.wait_of, starts, retry_s)
