"""The page of an array of jobs, and what is done to it; 404 for who may not see it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from common.errors import Conflict
from jobs.arrays.services import find_array, retry_array, stop_array
from portal.pages.arrays.view_model import ArrayPage, ArrayView
from portal.pages.jobs.view_model import JobRights
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.wording.errors import describe_refusal


@require_safe
@signed_in
def show_array(request: HttpRequest, array_id: str) -> HttpResponse:
    """Show an array's page, or its row of a list."""
    view = ArrayView(find_array(request.user, array_id), JobRights(request.user))
    page = ArrayPage(view, request.user, request.GET.get("state", ""), request.GET.get("page", ""))
    fragments = {"array": "arrays/_array.html", f"row-{view.id}": "arrays/_row.html"}
    return render_page(request, "arrays/detail.html", {"view": view, "array": page}, fragment=fragments)


@require_POST
@signed_in
def stop(request: HttpRequest, array_id: str) -> HttpResponse:
    stop_array(actor=request.user, array=find_array(request.user, array_id))
    return redirect("array", array_id=array_id)


@require_POST
@signed_in
def retry(request: HttpRequest, array_id: str) -> HttpResponse:
    """Queue elements again: those that failed, or with `all` the rest as well; a refusal is a message."""
    array = find_array(request.user, array_id)
    try:
        retry_array(actor=request.user, array=array, only_failed="all" not in request.POST)
    except Conflict as refused:
        messages.error(request, describe_refusal(refused))
    return redirect("array", array_id=array_id)
