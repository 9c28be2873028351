"""Each channel gets what its documentation asks for; checked by shape, and by a small server in place of the chat."""

import base64
import hashlib
import hmac
import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from common import safe_http
from events.models import Event
from events.record_and_publish import SYSTEM
from portal.tasks import describe_for_chat
from tests import make
from webhooks import sender
from webhooks.delivery_queue import Addressed, queue_addressed
from webhooks.formats import Words, build_alertmanager_request, build_chat_request, judge_answer
from webhooks.models import Webhook
from webhooks.sender import send_webhooks
from webhooks.services import change_webhook

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
WORDS = Words("GPU too hot: n1:0", ("n1:0: 90 °C", "<!channel> *x* <a>"), "https://t.example/alerts/", "critical")
URL = "https://chat.example/hook?key=1"
DATA = {
    "status": "firing", "severity": "warning", "rule": "gpu_hot", "name": "GPU too hot", "title": "GPU too hot: n1:0",
    "url": "https://t.example/alerts/", "runbook": "https://wiki.example/hot", "repeats_s": 14_400,
    "lines": ["n1:0: 90 °C"],
    "alerts": [
        {"label": "n1:0", "subject": "card", "since": NOW.isoformat(), "ended": None, "value": 90.0, "unit": "°C"}
    ],
    "more": 0,
}  # fmt: skip


def build(kind: str, secret: str = "", words: Words = WORDS):
    posted = build_chat_request(kind, URL, words, secret, NOW)
    assert posted.headers["Content-Type"].startswith("application/json")
    return posted.url, json.loads(posted.body)


def test_slack_gets_text_with_a_coloured_attachment_that_mentions_nobody():
    url, sent = build("slack")
    (block,) = sent["attachments"]
    assert url == URL and sent["text"] == "Tessera: GPU too hot: n1:0" and block["title_link"] == WORDS.url
    assert block["color"] == "#d63939" and "&lt;!channel&gt;" in block["text"] and "<" not in block["text"]
    assert build("slack", words=Words("x", ended=True))[1]["attachments"][0]["color"] == "#2fb344"


def test_teams_gets_an_adaptive_card():
    _, sent = build("teams")
    (attachment,) = sent["attachments"]
    card = attachment["content"]
    assert sent["type"] == "message" and attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["type"], card["version"], card["body"][0]["color"]) == ("AdaptiveCard", "1.4", "Attention")
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Tessera", "url": WORDS.url}]
    assert "\\*x\\*" in card["body"][2]["text"]


def test_dingtalk_gets_text_and_a_signature_in_the_address():
    url, sent = build("dingtalk", "SEC1")
    query = parse_qs(urlsplit(url).query)
    stamp = str(int(NOW.timestamp() * 1000))
    expected = base64.b64encode(hmac.new(b"SEC1", f"{stamp}\nSEC1".encode(), hashlib.sha256).digest()).decode()
    assert (query["timestamp"], query["sign"], query["key"]) == ([stamp], [expected], ["1"])
    assert sent["msgtype"] == "text" and sent["text"]["content"].startswith("Tessera: GPU too hot")
    assert build("dingtalk")[0] == URL


def test_feishu_gets_a_post_signed_in_the_body():
    _, sent = build("feishu", "s3")
    stamp = str(int(NOW.timestamp()))
    expected = base64.b64encode(hmac.new(f"{stamp}\ns3".encode(), b"", hashlib.sha256).digest()).decode()
    assert (sent["timestamp"], sent["sign"], sent["msg_type"]) == (stamp, expected, "post")
    post = sent["content"]["post"]["zh_cn"]
    assert post["title"] == "Tessera: GPU too hot: n1:0" and post["content"][0] == [
        {"tag": "text", "text": "n1:0: 90 °C"}
    ]
    assert post["content"][-1][0]["href"] == WORDS.url and "sign" not in build("feishu")[1]


def test_wecom_gets_text_of_two_kilobytes_at_most():
    _, sent = build("wecom", words=Words("热" * 2000))
    assert sent["msgtype"] == "text" and len(sent["text"]["content"].encode()) <= 2048
    assert sent["text"]["content"].endswith("…")


def test_an_alertmanager_gets_alerts_that_last_until_after_the_next_repeat():
    posted = build_alertmanager_request("http://am:9093/", DATA, "https://t.example", NOW)
    (alert,) = json.loads(posted.body)
    assert posted.url == "http://am:9093/api/v2/alerts"
    assert alert["labels"] == {
        "alertname": "gpu_hot", "severity": "warning", "subject": "card", "instance": "n1:0", "tessera": "https://t.example",
    }  # fmt: skip
    assert alert["annotations"]["value"] == "90 °C" and alert["annotations"]["runbook_url"] == DATA["runbook"]
    assert alert["endsAt"] == "2026-11-27T17:00:00+00:00" and alert["startsAt"] == NOW.isoformat()
    (test,) = json.loads(build_alertmanager_request("http://am:9093/api/v2/alerts", {}, "x", NOW).body)
    assert test["endsAt"] == test["startsAt"]


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("dingtalk", b'{"errcode":0,"errmsg":"ok"}', ""),
        ("dingtalk", b'{"errcode":310000,"errmsg":"sign not match"}', "chat_refused"),
        ("wecom", b'{"errcode":45009}', "chat_too_fast"),
        ("feishu", b'{"code":0,"msg":"success"}', ""),
        ("feishu", b'{"code":19021,"msg":"sign match fail"}', "chat_refused"),
        ("feishu", b"<html>", "chat_refused"),
        ("slack", b"ok", ""),
        ("cloudevents", b"", ""),
    ],
)
def test_a_chat_that_answers_200_may_have_refused(kind, body, error):
    assert judge_answer(kind, body) == error


GOT: list[tuple[str, dict]] = []


class Chat(BaseHTTPRequestHandler):
    answer = b'{"errcode":0,"code":0}'

    def do_POST(self):
        GOT.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *args):
        pass


@pytest.fixture
def chat(settings, monkeypatch):
    settings.TESSERA_WEBHOOK_PRIVATE = ["127.0.0.0/8"]
    monkeypatch.setattr(safe_http, "WITHIN_S", 60.0)  # the chat is a thread of this process, which may be slow
    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    GOT.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.django_db(transaction=True)
def test_a_bot_gets_alerts_and_events_signed_and_no_faster_than_it_takes_them(chat):
    cast = make.cast()
    hook = make.webhook(cast.ada)
    address = f"http://127.0.0.1:{chat.server_port}/bot"
    hook = change_webhook(actor=cast.ada, webhook=hook, url=address, format="feishu", chat_secret="s3cret")
    assert "s3cret" not in str(Webhook.objects.values().get())
    alert = make.alert("low_activity", "job-412", owners=[cast.ada.pk])
    other = make.alert("low_activity", "job-413", owners=[cast.eve.pk])
    for one in (alert, other):
        event = Event.objects.create(
            kind="alert",
            object_id=one.pk,
            label=one.public_id,
            seq=1,
            verb="state",
            to_state="FIRING",
            actor=SYSTEM.name,
        )
        queue_addressed([Addressed(hook, event, DATA)])
    make.job(cast.ada, name="train")
    send_webhooks(
        lambda delivery: (delivery.event.kind, delivery.event.object_id) != ("alert", other.pk), describe_for_chat
    )
    titles = [sent["content"]["post"]["zh_cn"]["title"] for _, sent in GOT]
    assert "Tessera: GPU too hot: n1:0" in titles and any("Submitted to pool" in title for title in titles)
    assert len(titles) == 4, list(hook.deliveries.values())  # with the webhook's own two
    assert all(sent["sign"] for _, sent in GOT)


@pytest.mark.django_db(transaction=True)
def test_a_bot_is_sent_no_more_than_it_takes_and_the_rest_waits_untried(chat, monkeypatch):
    monkeypatch.setattr(sender, "PACES", {"wecom": ((2, 3599),)})
    cast = make.cast()
    address = f"http://127.0.0.1:{chat.server_port}/bot"
    hook = change_webhook(actor=cast.ada, webhook=make.webhook(cast.ada, None, "job"), url=address, format="wecom")
    for _ in range(4):
        make.job(cast.ada)
    send_webhooks(lambda delivery: True, describe_for_chat)
    assert len(GOT) == 2
    waiting = hook.deliveries.filter(sent_at=None)
    assert [(row.attempts, row.claimed_until, row.error) for row in waiting] == [(0, None, "")] * 2


@pytest.mark.django_db
def test_an_alertmanager_wants_alerts_alone():
    hook = Webhook(format="alertmanager", topics=[])
    assert hook.wants("alert.firing") and not hook.wants("job.failed")
