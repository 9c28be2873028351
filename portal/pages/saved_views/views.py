"""Views of the list of jobs that a person gave a name: the filters and the order of its address."""

from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from accounts.models import User
from common.errors import InvalidInput
from portal.pages.jobs.job_list import JobList
from portal.pages.request_guards import signed_in
from portal.saved_views import store
from portal.wording.errors import describe_refusal


@require_POST
@signed_in
def save_view(request: HttpRequest) -> HttpResponse:
    """Save what the address asks for under a name; a view of the same name is replaced. Refusals are messages."""
    user = cast(User, request.user)
    asked = JobList(user, QueryDict(request.POST.get("query", "").removeprefix("?"))).asks
    try:
        view, _new = store.save_view(user, request.POST.get("name", ""), asked)
    except InvalidInput as error:
        messages.error(request, describe_refusal(error))
    else:
        messages.success(request, _("The view “%(name)s” is saved.") % {"name": view.name})
    return redirect(reverse("jobs") + asked.address())


@require_POST
@signed_in
def delete_view(request: HttpRequest, view_id: int) -> HttpResponse:
    view = store.delete_view(cast(User, request.user), view_id)
    messages.success(request, _("The view “%(name)s” is deleted.") % {"name": view.name})
    return redirect("jobs")
