"""Mails with a report: its sentence, its first rows, and all as CSV; of what the person sees when it is sent."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.core.signing import BadSignature, Signer
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from accounts.models import User
from events.models import Notice
from monitoring.models import ReportMail
from portal.pages.reports.page import ReportPage
from portal.pages.reports.views import REPORTS
from portal.wording.monitoring.report_mails import name_column

MOST_ROWS = 30
"""Of the mail itself; the file has all."""
SIGNER = Signer(salt="report mail")


def build_report_mail(notice: Notice, user: User, headers: dict[str, str]) -> EmailMultiAlternatives | None:
    """Return the mail of a report that is due, in the active language; None where it is not wanted any more."""
    mail = ReportMail.objects.filter(pk=notice.object_id, user=user).first()
    if mail is None or mail.report not in REPORTS:
        return None
    page = _build_page(mail, user, notice.params)
    table = page.write_csv()
    title = _("%(report)s, %(days)s") % {"report": page.words, "days": page.days}
    off = settings.TESSERA_PUBLIC_URL + reverse("report_mail_off", args=[SIGNER.sign(str(mail.pk))])
    names, rows, more = read_rows(table)
    where = settings.TESSERA_PUBLIC_URL + f"{reverse('report', args=[mail.report])}?{page.query}"
    context = {"title": title, "page": page, "names": names, "rows": rows, "more": more, "where": where, "off": off}
    plain = [f"{title}.", page.answer, where, "-- \n" + _("No more of these mails: %(url)s") % {"url": off}]
    one_click = {"List-Unsubscribe": f"<{off}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    built = EmailMultiAlternatives(
        f"Tessera: {title}", "\n\n".join(plain), to=[user.email], headers={**headers, **one_click}
    )
    built.attach_alternative(render_to_string("reports/mail.html", context), "text/html")
    built.attach(page.filename, table, "text/csv")
    return built


def read_off_link(secret: str) -> int | None:
    """Return the id of the mail that a link is to stop; None if nobody made it."""
    try:
        return int(SIGNER.unsign(secret))
    except BadSignature:
        return None


def read_rows(table: str) -> tuple[list[str], list[list[str]], int]:
    """Return the names of a CSV's columns in words, its first rows as people read them, and how many more there are."""
    names, *rows = csv.reader(io.StringIO(table))
    return [name_column(name) for name in names], [_show_row(row) for row in rows[:MOST_ROWS]], len(rows[MOST_ROWS:])


def _show_row(row: Sequence[str]) -> list[str]:
    return [row[0] or "–", *map(_show_cell, row[1:])]


def _show_cell(cell: str) -> str:
    """Return a number with two places at most; what is empty is not known."""
    try:
        number = float(cell)
    except ValueError:
        return cell or "?"
    return number_format(number, 0 if number == int(number) else 2, force_grouping=True)


def _build_page(mail: ReportMail, user: User, params: dict) -> ReportPage:
    first, end = (datetime.fromisoformat(params[name]) for name in ("from", "to"))
    last = end - timedelta(days=1)
    return REPORTS[mail.report](user, {"by": mail.by, "from": first.date().isoformat(), "to": last.date().isoformat()})
