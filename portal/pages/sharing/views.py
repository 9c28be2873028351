"""The page on which an owner opens a job or notebook to colleagues, and ends that."""

from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import User
from accounts.permissions import may, require
from jobs.models import Job
from jobs.states import JOB_FINAL
from portal.forms import save
from portal.pages.jobs.view_model import find_job
from portal.pages.request_guards import signed_in
from sharing.shares import end_share, find_shared_notebook, list_colleagues, share_job


class ShareForm(forms.Form):
    person = forms.ChoiceField(label=gettext_lazy("Colleague"))

    def __init__(self, job: Job, *args: object):
        super().__init__(*args)  # type: ignore[arg-type]
        let_in = set(job.shares.values_list("user", flat=True))
        others = [one for one in list_colleagues(job) if one.pk not in let_in]
        self.fields["person"].choices = [(one.username, _name(one)) for one in others]  # type: ignore[attr-defined]


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def show_sharing(request: HttpRequest, job_id: str) -> HttpResponse:
    """Show to whom a job is open, or open it to one more."""
    user = cast(User, request.user)
    job = find_job(user, job_id)
    require(user, "job.stop", job.team, job.user_id)
    form = ShareForm(job, *([request.POST] if request.method == "POST" else []))
    if share := save(form, lambda: share_job(actor=user, job=job, person=form.cleaned_data["person"])):
        messages.success(request, _("%(name)s can enter now, and is told so.") % {"name": share.user.username})
        return redirect("job_sharing", job_id=job_id)
    context = {
        "job": job,
        "notebook": find_shared_notebook(job),
        "shares": list(job.shares.select_related("user")),
        "form": form,
        "is_open": job.state not in JOB_FINAL,
        "may_share": may(user, "job.enter", job.team, job.user_id),
    }
    return render(request, "sharing/page.html", context, status=400 if form.is_bound else 200)


@signed_in
@require_POST
def end(request: HttpRequest, job_id: str) -> HttpResponse:
    user, person = cast(User, request.user), request.POST.get("person", "")
    end_share(actor=user, job=find_job(user, job_id), person=person)
    messages.success(request, _("%(name)s can no longer enter.") % {"name": person})
    return redirect("job_sharing", job_id=job_id)


def _name(person: User) -> str:
    return f"{person.username} ({person.full_name})" if person.full_name else person.username
