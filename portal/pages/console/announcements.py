"""Announcements: what stands at the top of each page, for whom, and until when."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.announcements import end_announcement, find_announcement, list_announcements, save_announcement
from accounts.models import Announcement
from accounts.permissions import require
from portal.forms import save
from portal.pages.console.forms import TeamChoice
from portal.pages.console.page import for_staff, person_of, show


class AnnouncementForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Text"), max_length=300, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    tone = forms.ChoiceField(label=gettext_lazy("Kind"), choices=Announcement.Tone.choices)
    team = TeamChoice(label=gettext_lazy("For"), required=False, empty_label=gettext_lazy("everybody"))
    begins_at = forms.DateTimeField(
        label=gettext_lazy("From"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text=gettext_lazy("Empty: now."),
    )
    ends_at = forms.DateTimeField(
        label=gettext_lazy("Until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text=gettext_lazy("Empty: until you end it."),
    )

    def clean_begins_at(self) -> datetime:
        return self.cleaned_data["begins_at"] or timezone.now()


@require_http_methods(["GET", "POST"])
@for_staff
def show_announcements(request: HttpRequest) -> HttpResponse:
    """List what is told and planned, or make an announcement."""
    form = AnnouncementForm(request.POST or None)
    if form.is_bound:
        require(person_of(request), "announcement.change")
    actor = person_of(request)
    if save(form, lambda: save_announcement(actor=actor, announcement=Announcement(**form.cleaned_data))):
        messages.success(request, _("The announcement is made."))
        return redirect("console_announcements")
    context = {"rows": list_announcements(person_of(request)), "form": form, "now": timezone.now()}
    status = 400 if form.is_bound else 200
    return show(request, "console/announcements.html", context, current="console_announcements", status=status)


@require_POST
@for_staff
def end(request: HttpRequest, announcement_id: int) -> HttpResponse:
    row = find_announcement(person_of(request), announcement_id)
    end_announcement(actor=person_of(request), announcement=row)
    messages.success(request, _("The announcement is ended."))
    return redirect("console_announcements")
