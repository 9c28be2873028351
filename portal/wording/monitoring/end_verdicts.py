"""What notices of ended jobs say of how well a job used what it held."""

from collections.abc import Iterable

from events.models import Notice
from jobs.lifecycle import ENDS
from jobs.models import Job
from monitoring.usage.efficiency import judge
from monitoring.usage.figures import load_job_uses
from portal.wording.efficiency import describe_efficiency


def load_end_verdicts(notices: Iterable[Notice]) -> dict[int, str]:
    """Return {notice id: sentence} of those about a job's last end of which there is something to say."""
    told = {notice.pk: notice for notice in notices if notice.kind in ENDS.values() and notice.object_kind == Job.KIND}
    jobs = Job.objects.in_bulk({notice.object_id for notice in told.values()}) if told else {}
    last = {
        pk: jobs[notice.object_id]
        for pk, notice in told.items()
        if notice.object_id in jobs and _is_end_of(notice, jobs[notice.object_id])
    }
    uses = load_job_uses(list({job.pk: job for job in last.values()}.values())) if last else {}
    found = {pk: describe_efficiency(judge(uses[job.pk])) for pk, job in last.items() if job.pk in uses}
    return {pk: words for pk, words in found.items() if words}


def _is_end_of(notice: Notice, job: Job) -> bool:
    """Return whether no later attempt has ended, or runs, since."""
    return job.is_final and job.ended_at is not None and job.ended_at <= notice.created_at
