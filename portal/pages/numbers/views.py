"""The page that compares what several jobs report."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.pages.jobs.view_model import find_job
from portal.pages.numbers.view_model import MOST_COMPARED, Comparison
from portal.pages.request_guards import signed_in


@require_safe
@signed_in
def compare_jobs(request: HttpRequest) -> HttpResponse:
    """Show the numbers of the jobs that the address names over one another; 404 if one may not be seen."""
    ids = list(dict.fromkeys(request.GET.getlist("job")))
    jobs = [find_job(request.user, job_id) for job_id in ids] if 2 <= len(ids) <= MOST_COMPARED else []
    return render(request, "numbers/compare.html", {"page": Comparison(jobs), "most": MOST_COMPARED})
