"""Storage that the site has already, and the names by which jobs have it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.permissions import require
from common.errors import PlatformError
from files.models import Volume
from files.volumes import filter_visible_volumes, find_volume, save_volume
from jobs.used_data.volumes import delete_unused_volume, list_volume_users
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.forms import CheckedBySaving, TeamChoice
from portal.pages.console.page import for_staff, person_of, show
from portal.wording.errors import describe_refusal

MOST_LINES = 20
MOST_JOBS = 20
LABELS = {
    "name": gettext_lazy("Name"),
    "source": gettext_lazy("Folder of the machines, or claim of the cluster"),
    "read_only": gettext_lazy("Read-only"),
    "description": gettext_lazy("Description"),
}


class VolumeForm(CheckedBySaving):
    """A new volume: its name and team stay."""

    team = TeamChoice(label=gettext_lazy("For"), required=False, empty_label=gettext_lazy("everybody"))

    class Meta:
        model = Volume
        fields = ("name", "source", "read_only", "description", "team")
        labels = LABELS


class VolumeChangeForm(CheckedBySaving):
    class Meta:
        model = Volume
        fields = ("source", "read_only", "description")
        labels = LABELS


@require_http_methods(["GET", "POST"])
@for_staff
def show_volumes(request: HttpRequest) -> HttpResponse:
    """List volumes, or add one."""
    form = VolumeForm(request.POST if request.method == "POST" else None)
    if form.is_bound:
        require(person_of(request), "volume.change")
    if volume := save(form, lambda: save_volume(actor=person_of(request), volume=form.instance)):
        messages.success(request, _("Jobs may name volume:%(name)s now.") % {"name": volume})
        return redirect("console_volumes")
    volumes = list(filter_visible_volumes(person_of(request)))
    words = ngettext("%(count)s volume.", "%(count)s volumes.", len(volumes)) % {"count": len(volumes)}
    context = {"volumes": volumes, "form": form, "answer": words}
    status = 400 if form.is_bound else 200
    return show(request, "console/volumes.html", context, current="console_volumes", status=status)


@require_http_methods(["GET", "POST"])
@for_staff
def show_volume(request: HttpRequest, volume_id: int) -> HttpResponse:
    """Show a volume and who uses it, or save what was changed of it."""
    volume = find_volume(person_of(request), volume_id)
    form = VolumeChangeForm(request.POST if request.method == "POST" else None, instance=volume)
    if form.is_bound:
        require(person_of(request), "volume.change")
    if save(form, lambda: save_volume(actor=person_of(request), volume=form.instance)):
        messages.success(request, _("Saved."))
        return redirect("console_volume", volume_id=volume_id)
    shown = find_volume(person_of(request), volume_id)
    jobs = list_volume_users(shown)
    context = {
        "volume": shown,
        "form": form,
        "count": len(jobs),
        "jobs": jobs[:MOST_JOBS],
        "history": list_history(MOST_LINES, kind=Volume.KIND, object_id=volume_id),
    }
    status = 400 if form.is_bound else 200
    return show(request, "console/volume.html", context, current="console_volumes", status=status)


@require_POST
@for_staff
def remove_volume(request: HttpRequest, volume_id: int) -> HttpResponse:
    """Forget a volume; a refusal is a message."""
    volume = find_volume(person_of(request), volume_id)
    require(person_of(request), "volume.change")
    try:
        delete_unused_volume(actor=person_of(request), volume=volume)
    except PlatformError as refusal:
        messages.warning(request, describe_refusal(refusal))
        return redirect("console_volume", volume_id=volume_id)
    messages.success(request, _("No new job can name %(name)s. Its files stay.") % {"name": volume})
    return redirect("console_volumes")
