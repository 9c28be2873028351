"""Job submission by form or YAML, kept in sync."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.text import capfirst
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import User
from accounts.permissions import teams_where
from cluster.models import Pool
from common.errors import FieldError, InvalidInput, PlatformError
from common.resources import show_cpu, show_duration, show_gpu, show_memory
from environments.services import list_environments
from images.catalogue import CATALOGUE, filter_visible_images
from jobs.arrays.models import read_array_id
from jobs.arrays.services import find_array, submit_array
from jobs.code.upload import keep_code, pack_one_file
from jobs.copying.copies import copy_file
from jobs.jobfile.dump import dump_file
from jobs.jobfile.parse import derive_name
from jobs.jobfile.schema import list_completions
from jobs.jobfile.spec import roles_of
from jobs.models import CodePack, Job, Priority, read_job_id
from jobs.pricing.price import load_price
from jobs.reason_messages import describe_wait
from jobs.submit import Draft, Origin, submit_job
from portal.pages.cluster.scheduler_pulse import scheduler_late
from portal.pages.jobs.form import ASKS, BLANK, values_of, write_first_file
from portal.pages.jobs.job_editor import EditedJob, Verdict, locate_errors, read_edited_job, validate_edited_job
from portal.pages.jobs.view_model import find_job
from portal.pages.own_limits import find_full_submit_limit
from portal.pages.request_guards import signed_in
from portal.wording.plans import (
    describe_array,
    describe_borrowing,
    describe_change,
    describe_other_choice,
    describe_plan,
    describe_sooner_start,
)
from portal.wording.priority import describe_price
from portal.wording.resources import describe_roles
from scheduler.preview.possible_asks import PossibleAsks, find_named_ask
from scheduler.preview.preview import PlanAnswer, PoolCapacity, check_possible, list_capacity, plan_job
from scheduler.preview.runtime_capabilities import runtime_has_containers

EXAMPLE = """\
name: hello
run: |-
  echo "Hello from $(hostname)"
  for step in 1 2 3 4 5; do
    echo "step $step of 5 on GPU ${CUDA_VISIBLE_DEVICES:-none}"
    sleep 1
  done
"""
CHANGED = ("gpu", "cpu", "memory", "nodes", "pool", "time", "priority", "preemptible")
ROLES = gettext_lazy("Roles, set in the YAML: %(roles)s.")
MAX_SCRIPT = 1024 * 1024
MOST_ENVIRONMENTS = 100
"""That the form offers while one types."""


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_job(request: HttpRequest) -> HttpResponse:
    """Show the form, or submit and show errors."""
    possible = PossibleAsks(request.user)
    if request.method != "POST":
        first = build_first_file(request.user, request.GET.get("from", ""), possible)
        edited = EditedJob(first, read_changes(request.GET))
        return _show(request, edited, validate_edited_job(edited), possible)
    edited = read_edited_job(request.POST)
    try:
        keep_upload(request.user, edited, request.FILES.get("upload"))
        origin = find_origin(request.user, request.POST.get("parent", ""))
        can = {"check": check_possible, "containers": runtime_has_containers()}
        if (spec := edited.spec()).elements is not None:
            array = submit_array(user=request.user, spec=spec, **can)
            return redirect("array", array_id=array.public_id)
        job = submit_job(user=request.user, spec=spec, origin=origin, **can)
    except PlatformError as error:  # here, so that the form is kept
        return _show(request, edited, locate_errors(error, edited), possible, error.status)
    return redirect("job", job_id=job.public_id)


@require_POST
@signed_in
def sync_job_editor(request: HttpRequest) -> JsonResponse:
    """Return form and YAML in sync, errors and a preview. Stores nothing.

    `ahead` adds forecast and levers, in up to two seconds.

    {"yaml": text, "values": {field: text}, both null if unreadable, "stuck": unreadable as posted,
    "errors": {field: sentence}, "lines": [{"line", "words"}], "preview": {...}, "usual": {...}}
    """
    edited = read_edited_job(request.POST)
    verdict = validate_edited_job(edited)
    found = preview(request.user, edited, verdict, ahead=request.POST.get("ahead") == "1")
    agreed = (None, None) if edited.trouble else (edited.text, values_of(edited.data))
    told = {"yaml": agreed[0], "values": agreed[1], "stuck": edited.blocked}
    return JsonResponse({**told, **found, "errors": verdict.fields, "lines": verdict.lines})


def build_first_file(user: User, source: str, possible: PossibleAsks) -> str:
    """Return the first job file: an example, a copy of the job or array `source`, or blank."""
    if source in ("", "example"):
        return write_first_file(EXAMPLE if source else BLANK, possible.usual)
    source_row = find_array(user, source) if read_array_id(source) else find_job(user, source)
    return dump_file(copy_file(user, source_row))


def find_origin(user: User, source: str) -> Origin:
    """Return what a job is a copy of, if the user sees it."""
    number = read_job_id(source)
    return Origin(parent=Job.objects.visible_to(user).filter(pk=number).first() if number else None)


def read_changes(query: Mapping[str, str]) -> dict[str, str]:
    """Return {field: text} that a lever's link changes."""
    return {name: query[name] for name in CHANGED if name in query}


def keep_upload(user: User, edited: EditedJob, upload: UploadedFile | None) -> None:
    """Store an upload before submit, which may be refused."""
    if upload is None or edited.trouble:
        return
    kept = keep_code(user=user, pieces=read_pieces(upload))
    edited.chosen = False
    edited.write({**edited.data, "code": kept.digest})


def read_pieces(upload: UploadedFile) -> Iterable[bytes]:
    """Return the upload as tar.gz chunks; packs a single Python file."""
    name = (upload.name or "").replace("\\", "/").rpartition("/")[2]
    if not name.endswith(".py"):
        return upload.chunks()
    if (upload.size or 0) > MAX_SCRIPT:
        raise InvalidInput([FieldError("/code", "archive_too_large", {"max": "1 MiB"})])
    return [pack_one_file(name, upload.read())]


# ---- preview ----


def preview(user: User, edited: EditedJob, verdict: Verdict, *, ahead: bool) -> dict:
    """Return {"preview": {tone, words, more, fixes, later}, "usual": {field: default}}.

    Adds refusals to `verdict`; `later`: `ahead` would say more.
    """
    if verdict.spec is None:
        return _build_preview("plain", _("Fix the marked fields to see where the job could start."))
    spec = verdict.spec
    try:
        answer = plan_job(user, replace(spec, code=None if edited.chosen else spec.code, array=None), levers=ahead)
    except PlatformError as error:
        refused = _add_refusals(error, edited, verdict)
        lines = [line["words"] for line in refused.lines]
        return _build_preview("plain", *((lines[0],) if len(lines) == 1 else (refused.words, lines)))
    if answer.never:
        return _build_preview("fault", describe_plan(answer), fixes=_add_refusals(answer.never, edited, verdict).fixes)
    draft, waits = cast(Draft, answer.draft), answer.outcome == "waits"
    more = [capfirst(describe_wait(reason)) for reason in answer.reasons[:1]]
    if spec.elements is not None:
        more.append(describe_array(spec.elements, spec.time_s))
    more.append(f"{describe_borrowing(draft)} {describe_other_choice(answer.other, answer.outcome)}".strip())
    more += list_notes(user, draft)
    if waits and not ahead:
        more.append(_("Estimating when it would start, and what would help…"))
    found = _build_preview(
        "wait" if waits else "done",
        describe_plan(answer),
        more,
        build_suggestion_fixes(answer),
        later=not ahead and (waits or is_other_unknown(answer)),
    )
    return {**found, "usual": list_defaults(draft)}


def is_other_unknown(answer: PlanAnswer) -> bool:
    """Whether it is to be told when a job that may not be stopped would start, which takes longer to find out."""
    return answer.other is not None and answer.outcome == "starts" and not answer.other.starts


def build_suggestion_fixes(answer: PlanAnswer) -> list[dict]:
    return [
        {
            "field": one.change.field,
            "value": one.change.value,
            "words": _("%(change)s: %(start)s")
            % {"change": capfirst(describe_change(one)), "start": describe_sooner_start(one)},
        }
        for one in answer.outlook.sooner
    ]


def _add_refusals(error: PlatformError, edited: EditedJob, verdict: Verdict) -> Verdict:
    """Add an error's fields and lines to the verdict."""
    refused = locate_errors(error, edited)
    verdict.fields, verdict.lines = verdict.fields | refused.fields, verdict.lines + refused.lines
    return refused


def list_notes(user: User, draft: Draft) -> list[str]:
    """Note roles, the price of high priority, free capacity and a late scheduler."""
    notes = [ROLES % {"roles": describe_roles(draft.gang)}] if draft.spec.roles else []
    if draft.asked.priority >= Priority.HIGH:
        notes.append(describe_price(load_price(draft.team, draft.pool)))
    notes += [describe_capacity(room) for room in list_capacity(user) if room.pool == draft.pool.name]
    if scheduler_late():
        notes.append(_("The scheduler is delayed right now: the job is accepted and waits."))
    return notes


def describe_capacity(room: PoolCapacity) -> str:
    """Say how many GPUs of the pool are free, for the team too."""
    params = {"free": show_gpu(room.free_milli), "total": room.cards_total, "whole": room.cards_free}
    params["waiting"] = room.waiting
    if room.may_milli is None or room.may_milli >= room.free_milli:
        return (
            _("GPUs free in this pool: %(free)s of %(total)s, whole cards: %(whole)s. Jobs waiting: %(waiting)s.")
            % params
        )
    params["may"] = show_gpu(room.may_milli)
    return (
        _("GPUs free in this pool: %(free)s of %(total)s, for you at most %(may)s. Jobs waiting: %(waiting)s.") % params
    )


def list_defaults(draft: Draft) -> dict[str, str]:
    request, limit = draft.gang[0]["request"], draft.pool.default_max_time_s
    usual = {"name": derive_name(roles_of(draft.spec)[0].run)}
    if not draft.spec.roles:
        usual |= {"cpu": show_cpu(request["cpu_milli"]), "memory": show_memory(request["memory_mib"])}
    return usual | ({"max_time": show_duration(limit)} if limit else {})


def _build_preview(
    tone: str, words: str, more: list[str] | None = None, fixes: list[dict] | None = None, *, later: bool = False
) -> dict:
    told = {"tone": tone, "words": words, "more": more or [], "fixes": fixes or [], "later": later}
    return {"preview": told, "usual": {}}


def _show(
    request: HttpRequest, edited: EditedJob, verdict: Verdict, possible: PossibleAsks, status: int = 200
) -> HttpResponse:
    values, images = edited.shown(), list(filter_visible_images(request.user))
    asks, named_ask = possible.among(ASKS), find_named_ask(request.user)
    context = {
        "edited": edited,
        "keys": list_completions({"gpu": named_ask}),
        "parent": request.POST.get("parent") or request.GET.get("from", ""),
        "copied": request.GET.get("from", "") if read_changes(request.GET) else "",
        "verdict": verdict,
        "refused": status != 200,
        "values": values,
        "asks": asks,
        "full": find_full_submit_limit(request.user),
        "named_ask": named_ask,
        "tonight": localtime().replace(hour=22, minute=0).isoformat(timespec="minutes"),
        "asks_other": values["gpu"] not in asks,
        "teams": teams_where(request.user, "job.submit"),
        "pools": Pool.objects.filter(quotas__team__memberships__user=request.user).distinct(),
        "late": scheduler_late(),
        "containers": runtime_has_containers(),
        "default_image": settings.IN_CONTAINERS,
        "images": images,
        "environments": list_environments(request.user)[:MOST_ENVIRONMENTS],
        "image_known": any(image.alias == values["image"] for image in images),
        "catalogue_only": settings.TESSERA_IMAGES == CATALOGUE,
        "code": CodePack.objects.filter(user=request.user, digest=values["code"]).first(),
    }
    return render(request, "jobs/new.html", context, status=status)
