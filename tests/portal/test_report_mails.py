"""A report's mail: sent once, of what its person sees then, with the whole file, and ended by one click."""

import csv
import io
import re

import pytest
from django.core import mail
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.test import Client
from django.utils.html import escape

from accounts.models import Membership
from common.steady_clock import steady_now
from events.models import Notice
from events.outgoing import claim_rows
from monitoring.models import ReportMail
from monitoring.report_mails.services import create_report_mail
from portal.pages.reports.views import REPORTS
from portal.tasks import send, tell_reports
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(settings):
    settings.TESSERA_MAIL = True
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    cast = make.cast()
    for person, gpu, pool in ((cast.ada, 0, "dev"), (cast.eve, 1, "train")):
        make.use(
            make.start(make.job(person, gpu="1/2" if pool == "dev" else "1", pool=pool), cast.gpus[gpu])[0], hours=2000
        )
        type(person).objects.filter(pk=person.pk).update(email=f"{person.username}@corp.example")
    return cast


def make_due(person, report="usage", by="team") -> ReportMail:
    made = create_report_mail(ReportMail(user=person, report=report, by=by))
    ReportMail.objects.filter(pk=made.pk).update(next_at=steady_now())
    return made


def html_of(message: EmailMessage) -> str:
    assert isinstance(message, EmailMultiAlternatives)
    return str(message.alternatives[0][0])


def files_of(message) -> list[tuple[str, str]]:
    return [(name, content) for name, content, _kind in message.attachments]


def test_it_is_sent_once_with_a_sentence_a_table_and_the_file(cast):
    make_due(cast.ada)
    for _ in range(2):
        tell_reports()
        send()
    (message,) = mail.outbox
    assert message.to == ["ada@corp.example"] and "GPU-hours were held" in message.body
    html = html_of(message)
    assert '<td align="left">nlp</td>' in html and "Held GPU-hours" in html
    ((name, content),) = files_of(message)
    assert name.startswith("gpu-hours-by-team-") and [row["team"] for row in csv.DictReader(io.StringIO(content))] == [
        "nlp"
    ]
    notice = Notice.objects.get(kind="report")
    assert notice.sent_at is not None and notice.due_at is None


def test_while_one_sender_has_it_no_other_does(cast):
    make_due(cast.ada)
    tell_reports()
    assert len(claim_rows(Notice.objects.all(), 8)) == 1
    send()
    assert not mail.outbox


@pytest.mark.parametrize("report", [name for name, page in REPORTS.items() if page.mailable])
def test_it_tells_what_the_person_sees_when_it_is_sent_and_nothing_of_other_teams(cast, report):
    for by in REPORTS[report].groups:
        make_due(cast.eve, report, by)
    tell_reports()
    send()
    assert len(mail.outbox) == len(REPORTS[report].groups)
    for message in mail.outbox:
        told = message.body + html_of(message) + files_of(message)[0][1]
        assert not re.search(r"\b(nlp|ada|bob)\b", told.replace("vada", "")), message.subject
    Membership.objects.filter(user=cast.eve).delete()
    mail.outbox.clear()
    ReportMail.objects.update(next_at=steady_now())
    tell_reports()
    send()
    assert all("vision" not in files_of(message)[0][1] for message in mail.outbox)


def test_one_click_ends_it_and_a_look_does_not(cast):
    made = make_due(cast.ada)
    tell_reports()
    send()
    (message,) = mail.outbox
    assert message.extra_headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = message.extra_headers["List-Unsubscribe"].strip("<>")
    assert link in message.body and escape(link) in html_of(message)
    visitor = Client(enforce_csrf_checks=True)
    path = link.removeprefix("http://testserver")
    assert "No more of these mails?" in visitor.get(path).content.decode() and ReportMail.objects.exists()
    assert (
        Client().post(path[:-1] + ("a" if path[-1] != "a" else "b")).status_code == 404 and ReportMail.objects.exists()
    )
    for _ in range(2):
        assert Client(enforce_csrf_checks=True).post(path, {"List-Unsubscribe": "One-Click"}).status_code == 200
    assert not ReportMail.objects.filter(pk=made.pk).exists()


def test_what_was_ended_meanwhile_is_not_sent(cast):
    make_due(cast.ada)
    tell_reports()
    ReportMail.objects.all().delete()
    send()
    assert not mail.outbox and Notice.objects.get(kind="report").error == "not_wanted"


def test_a_person_chooses_them_beside_the_notifications(cast):
    client = Client(headers={"Origin": "http://testserver"})
    client.force_login(cast.ada)
    asked = {"add": "1", "what": "energy:node", "rhythm": "monthly", "hour": "9", "zone": "Asia/Shanghai"}
    assert "is not a time zone" in client.post("/settings/notifications/", {**asked, "zone": "x"}).content.decode()
    assert client.post("/settings/notifications/", {**asked, "what": "day:"}).status_code == 400
    assert client.post("/settings/notifications/", asked).status_code == 302
    made = ReportMail.objects.get()
    assert (made.report, made.by, made.rhythm, made.hour, made.user) == ("energy", "node", "monthly", 9, cast.ada)
    page = client.get("/settings/notifications/").content.decode()
    assert "Energy by: Machine" in page and "09:00 Asia/Shanghai" in page and "mailed for the first time" in page
    assert "already" in client.post("/settings/notifications/", asked).content.decode()
    assert client.post(f"/settings/notifications/reports/{made.pk}/delete").status_code == 302
    assert not ReportMail.objects.exists()
