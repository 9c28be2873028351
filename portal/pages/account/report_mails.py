"""Reports by mail: the form, and the doors by which one ends."""

from dataclasses import dataclass
from typing import cast

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import User
from monitoring.models import ReportMail, Rhythm
from monitoring.report_mails.services import (
    create_report_mail,
    delete_report_mail,
    drop_report_mail,
    list_report_mails,
)
from portal.pages.account.forms import ZONES
from portal.pages.reports.mails import read_off_link
from portal.pages.reports.views import REPORTS
from portal.pages.request_guards import signed_in


@dataclass(frozen=True)
class MailRow:
    mail: ReportMail
    words: str


class ReportMailForm(forms.Form):
    """what: a report and what it is summed by, as "usage:team"."""

    what = forms.ChoiceField(label=gettext_lazy("Report"))
    rhythm = forms.ChoiceField(label=gettext_lazy("How often"), choices=Rhythm.choices)
    hour = forms.TypedChoiceField(
        label=gettext_lazy("Hour"), coerce=int, initial=7, choices=[(hour, f"{hour:02}:00") for hour in range(24)]
    )
    zone = forms.CharField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        widget=forms.TextInput(attrs=ZONES),
        help_text=gettext_lazy("For example Asia/Shanghai. A week ends on Monday, 00:00 UTC."),
    )

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        cast(forms.ChoiceField, self.fields["what"]).choices = list_choices()

    def create(self, user: User) -> ReportMail:
        """Raises InvalidInput, Conflict, QuotaExceeded."""
        asked = self.cleaned_data
        report, _colon, by = asked["what"].partition(":")
        named = {name: asked[name] for name in ("rhythm", "hour", "zone")}
        return create_report_mail(ReportMail(user=user, report=report, by=by, **named))


def list_choices() -> list[tuple[str, str]]:
    """Return each report that can be mailed, by each of its groups."""
    return [
        (f"{name}:{by}", _name_report(name, by))
        for name, page in REPORTS.items()
        if page.mailable
        for by in page.groups
    ]


def list_rows(user: User) -> list[MailRow]:
    return [MailRow(mail, _name_report(mail.report, mail.by)) for mail in list_report_mails(user)]


@require_POST
@signed_in
def delete(request: HttpRequest, mail_id: int) -> HttpResponse:
    delete_report_mail(cast(User, request.user), mail_id)
    messages.success(request, _("This report is not mailed any more."))
    return redirect("notifications")


@csrf_exempt  # mail programs follow it by one click (RFC 8058); who has the link may stop these mails, and no more
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def stop(request: HttpRequest, secret: str) -> HttpResponse:
    """Stop a report by the link in its mail. Looking at it stops nothing: programs do that, too."""
    mail_id = read_off_link(secret)
    if mail_id is None:
        raise Http404
    if request.method == "POST":
        drop_report_mail(mail_id)
    return render(request, "account/report_mail_off.html", {"done": request.method == "POST"})


def _name_report(name: str, by: str) -> str:
    page = REPORTS.get(name)
    if page is None:
        return name
    words = {"report": page.words, "group": page.groups.get(by, by)}
    return _("%(report)s by: %(group)s") % words if len(page.groups) > 1 else str(page.words)
