"""The sender against a real receiver: delivered, tried again, given up, switched off, and told."""

import hashlib
import hmac
import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.core import mail
from django.db.models.functions import Now

from accounts.directory import suspend_person
from accounts.models import Membership
from common.errors import Conflict
from events.models import Event, Notice
from events.outgoing import AT_ONCE, PAUSES_S
from jobs.states import TaskState
from portal.tasks import send
from portal.wording.notices import view_notice
from tests import make
from webhooks.models import Delivery, Webhook
from webhooks.services import change_webhook, create_webhook, disable_webhook, try_webhook

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def receiver(settings):
    settings.TESSERA_WEBHOOK_PRIVATE = ["127.0.0.0/8"]
    with serve() as server:
        yield server


def hook(person, receiver, *topics, team=None):
    return create_webhook(actor=person, name="ci", url=receiver.url, topics=list(topics), team=team)


def test_a_job_is_told_once_with_a_signature_that_holds(cast, receiver):
    _, secret = hook(cast.ada, receiver, "job.submitted")
    job = make.job(cast.ada, pool="dev")
    send()
    send()
    ((headers, body),) = receiver.got
    signed = f"{headers['X-Tessera-Timestamp']}.".encode() + body
    good = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Tessera-Signature"] == good and json.loads(body)["subject"] == job.public_id
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.due_at, delivery.error) == (200, None, "") and delivery.sent_at


def test_a_receiver_that_fails_gets_it_again_with_the_same_event_id(cast, receiver):
    hook(cast.ada, receiver, "job.submitted")
    make.job(cast.ada, pool="dev")
    receiver.status = 500
    send()
    assert (Delivery.objects.get().status, Delivery.objects.get().error) == (500, "refused")
    receiver.status = 200
    Delivery.objects.update(due_at=Now())
    Webhook.objects.update(rests_until=None)
    send()
    ids = {json.loads(body)["id"] for _, body in receiver.got}
    assert len(receiver.got) == 2 and len(ids) == 1 and Delivery.objects.get().attempts == 2


def test_after_a_day_of_failing_it_is_switched_off_and_the_leads_are_told(cast, receiver):
    webhook, _ = hook(cast.bob, receiver, "job.submitted", team=cast.nlp)
    make.job(cast.ada, pool="dev")
    receiver.status = 500
    Delivery.objects.update(attempts=len(PAUSES_S))
    send()
    webhook.refresh_from_db()
    assert webhook.disabled_at and webhook.disabled_why == "failing"
    notice = Notice.objects.get(kind="webhook_disabled")
    assert (notice.user_id, notice.label) == (cast.bob.pk, webhook.public_id)
    assert view_notice(notice).path == f"/settings/webhooks/{webhook.pk}/"


def test_gone_means_gone_at_once(cast, receiver):
    webhook, _ = hook(cast.ada, receiver, "job.submitted")
    make.job(cast.ada, pool="dev")
    receiver.status = 410
    send()
    webhook.refresh_from_db()
    assert webhook.disabled_why == "gone"


def test_a_redirect_is_not_followed_and_counts_as_refused(cast, receiver):
    hook(cast.ada, receiver, "job.submitted")
    make.job(cast.ada, pool="dev")
    receiver.status = 302
    send()
    assert len(receiver.got) == 1 and Delivery.objects.get().error == "refused"


def test_who_left_the_team_hears_nothing_of_what_was_queued_before(cast, receiver):
    hook(cast.ada, receiver, "job.submitted")
    make.job(cast.ada, pool="dev")
    Membership.objects.filter(user=cast.ada).delete()
    send()
    assert not receiver.got and Delivery.objects.get().error == "not_permitted"


def test_a_teams_webhook_ends_with_its_makers_lead_and_another_lead_takes_it_over(cast, receiver):
    webhook, _ = hook(cast.bob, receiver, team=cast.nlp)
    Membership.objects.filter(user=cast.bob).update(role="member")
    Membership.objects.filter(user=cast.ada).update(role="lead")
    make.job(cast.ada, pool="dev")
    send()
    assert not receiver.got and Webhook.objects.get().disabled_why == "maker_left"
    change_webhook(actor=cast.ada, webhook=webhook, enabled=True)
    make.job(cast.ada, pool="dev")
    send()
    assert receiver.got and Webhook.objects.get().user_id == cast.ada.pk


def test_a_suspended_person_hears_nothing(cast, receiver):
    hook(cast.ada, receiver)
    make.job(cast.ada, pool="dev")
    suspend_person(actor=make.admin(), user=cast.ada)
    send()
    assert not receiver.got


def test_an_address_inside_is_refused_at_the_call_too(cast, receiver, settings):
    hook(cast.ada, receiver, "job.submitted")
    make.job(cast.ada, pool="dev")
    settings.TESSERA_WEBHOOK_PRIVATE = []
    send()
    assert not receiver.got and Delivery.objects.get().error == "forbidden_address"


def test_switching_off_leaves_a_line_of_history_and_happens_once(cast, receiver):
    webhook, _ = hook(cast.ada, receiver)
    for _ in range(2):
        disable_webhook(webhook=webhook, why="failing")
    assert Event.objects.filter(kind="webhook", verb="disabled").count() == 1


def failed_job(person):
    job = make.job(person, pool="dev", name="train")
    make.start(job)
    return make.end(job, TaskState.FAILED, "out_of_memory", exit_code=None)


def test_a_mail_says_what_the_page_says_in_the_persons_language_once(cast, settings):
    cast.ada.email = "ada@example.com"
    cast.ada.save(update_fields=["email"])
    job = failed_job(cast.ada)
    send()
    send()
    (sent,) = mail.outbox
    assert sent.to == ["ada@example.com"] and sent.subject == f"Tessera: train ({job.public_id}) failed"
    assert "The program used more memory than the job asked for." in sent.body
    assert f"{settings.TESSERA_PUBLIC_URL}/j/{job.public_id}/" in sent.body and "/settings/notifications/" in sent.body
    assert Notice.objects.get(kind="job_failed").sent_at


def test_without_an_address_or_a_mail_server_the_bell_is_all(cast, settings):
    failed_job(cast.ada)
    send()
    assert Notice.objects.get(kind="job_failed").error == "no_address"
    settings.TESSERA_MAIL = False
    failed_job(cast.bob)
    send()
    assert Notice.objects.get(kind="job_failed", user_id=cast.bob.pk).error == "no_mail" and not mail.outbox


def test_a_mail_server_that_is_away_is_tried_again(cast, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    cast.ada.email = "ada@example.com"
    cast.ada.save(update_fields=["email"])
    failed_job(cast.ada)
    send()
    notice = Notice.objects.get(kind="job_failed")
    assert notice.due_at and notice.error == "mail_refused"


def test_an_address_that_failed_rests_and_holds_up_nobody_else(cast, receiver):
    with serve() as failing:
        failing.status = 500
        hook(cast.ada, failing, "job.submitted")
        hook(cast.bob, receiver, "job.submitted")
        for person in [cast.ada] * 12 + [cast.bob] * 4:
            make.job(person, pool="dev")
        send()
        assert len(failing.got) == AT_ONCE  # what was claimed together
        assert len(receiver.got) == 4
        assert Delivery.objects.filter(due_at__isnull=False).count() == 12


def test_who_answers_again_gets_what_waited(cast, receiver):
    webhook, _ = hook(cast.ada, receiver, "job.submitted")
    for _ in range(12):
        make.job(cast.ada, pool="dev")
    receiver.status = 500
    send()
    receiver.status, tried = 200, len(receiver.got)
    assert Webhook.objects.get().rests_until is not None
    try_webhook(actor=cast.ada, webhook=webhook)
    send()
    assert Webhook.objects.get().rests_until is None
    assert len(receiver.got) == tried + (12 - tried) + 1  # those that waited and the test; what failed has its pause


def test_a_test_goes_out_whatever_the_topics_and_never_to_one_that_is_off(cast, receiver):
    webhook, _ = hook(cast.ada, receiver, "job.failed")
    try_webhook(actor=cast.ada, webhook=webhook)
    send()
    ((_, body),) = receiver.got
    assert json.loads(body)["type"] == "tessera.webhook.tested"
    change_webhook(actor=cast.ada, webhook=webhook, enabled=False)
    with pytest.raises(Conflict):
        try_webhook(actor=cast.ada, webhook=webhook)


def test_one_that_wants_everything_is_tested_by_one_delivery(cast, receiver):
    webhook, _ = hook(cast.ada, receiver)
    Delivery.objects.all().delete()  # of the line that it was made
    try_webhook(actor=cast.ada, webhook=webhook)
    send()
    assert len(receiver.got) == 1


def test_a_mail_that_is_not_taken_holds_up_no_other(cast):
    cast.ada.email, cast.bob.email = "ada@example.com\nBcc: all@example.com", "bob@example.com"
    for person in (cast.ada, cast.bob):
        person.save(update_fields=["email"])
        failed_job(person)
    send()
    assert [sent.to for sent in mail.outbox] == [["bob@example.com"]]
    assert Notice.objects.get(kind="job_failed", user_id=cast.ada.pk).error == "mail_refused"


def test_a_mail_server_that_is_away_is_asked_once_for_all(cast, settings):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it hangs up on whoever comes
        asked, thread = [], threading.Thread(target=lambda: hang_up(listener, asked))
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
        thread.start()
        cast.ada.email = "ada@example.com"
        cast.ada.save(update_fields=["email"])
        for _ in range(3):
            failed_job(cast.ada)
        send()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    waiting = Notice.objects.filter(kind="job_failed", due_at__isnull=False, error="mail_refused")
    assert (len(asked), waiting.count()) == (1, 3)


def hang_up(listener, asked):
    with suppress(OSError):
        while True:
            connection, address = listener.accept()
            connection.close()
            asked.append(address)


class Receiver:
    def __init__(self, url):
        self.url, self.status, self.got = url, 200, []


@contextmanager
def serve():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.got.append((dict(self.headers), body))
            self.send_response(received.status)
            self.send_header("Location", received.url)
            self.end_headers()

        def log_message(self, *_):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    received = Receiver(f"http://127.0.0.1:{http.server_address[1]}/hook")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield received
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
