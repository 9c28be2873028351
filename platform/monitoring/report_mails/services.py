"""People ask for reports by mail; those that are due become notices, which the sender mails."""

from django.db import transaction
from django.db.models import QuerySet

from accounts.models import User
from accounts.time_zones import is_zone
from common.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaExceeded
from common.steady_clock import steady_now
from events.notices import notify
from monitoring.models import ReportMail
from monitoring.report_mails.rhythm import find_next, find_period

MOST_MAILS = 20
"""Of one person."""
AT_ONCE = 200


def list_report_mails(user: User) -> QuerySet[ReportMail]:
    return ReportMail.objects.filter(user=user)


@transaction.atomic
def create_report_mail(mail: ReportMail) -> ReportMail:
    """Let a report be mailed to its person. Raises InvalidInput, Conflict if it is already, QuotaExceeded."""
    _check(mail)
    User.objects.select_for_update(no_key=True).get(pk=mail.user_id)
    own = list_report_mails(mail.user)
    if own.filter(report=mail.report, by=mail.by, rhythm=mail.rhythm).exists():
        raise Conflict("report_mail_twice")
    if (used := own.count()) >= MOST_MAILS:
        raise QuotaExceeded("user_limit.report_mails", used=used, limit=MOST_MAILS)
    mail.next_at = find_next(mail.rhythm, mail.hour, mail.zone, steady_now())
    mail.save(force_insert=True)
    return mail


def delete_report_mail(user: User, mail_id: int) -> None:
    """Stop a report of one's own. Raises NotFound."""
    deleted, _rows = ReportMail.objects.filter(user=user, pk=mail_id).delete()
    if not deleted:
        raise NotFound(kind="report_mail", id=str(mail_id))


def drop_report_mail(mail_id: int) -> None:
    """Stop a report by the link in its mail, as often as it is followed."""
    ReportMail.objects.filter(pk=mail_id).delete()


def tell_due_reports() -> int:
    """Make a notice of each report that is due; return how many.

    Each is due again in the transaction that makes its notice, under its lock, so that two that run at once make one.
    Of several weeks that were missed only the newest is told.
    """
    told = 0
    while (some := _tell_batch()) == AT_ONCE:
        told += some
    return told + some


@transaction.atomic
def _tell_batch() -> int:
    now = steady_now()
    due = ReportMail.objects.filter(next_at__lte=now).select_for_update(skip_locked=True, of=("self",))
    rows = list(due.order_by("next_at", "pk")[:AT_ONCE])
    for mail in rows:
        period = find_period(mail.rhythm, now)
        span = {"from": period.begins.isoformat(), "to": period.ends.isoformat()}
        notify(user_id=mail.user_id, kind="report", about=mail, params=span)
        mail.next_at = find_next(mail.rhythm, mail.hour, mail.zone, now)
        mail.save(update_fields=["next_at"])
    return len(rows)


def _check(mail: ReportMail) -> None:
    errors = []
    if not 0 <= mail.hour <= 23:
        errors.append(FieldError("/hour", "out_of_range", {"min": 0, "max": 23}))
    if not is_zone(mail.zone):
        errors.append(FieldError("/zone", "unknown_zone", {"got": mail.zone[:40]}))
    if errors:
        raise InvalidInput(errors)
