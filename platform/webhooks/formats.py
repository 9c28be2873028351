"""What each channel reads: a request for a program of one's own, an Alertmanager, or a bot of a chat. Pure.

Text of people is sent as plain text only, so that a name mentions nobody and makes no link.

https://prometheus.io/docs/alerting/latest/alerts_api/
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
https://learn.microsoft.com/en-us/connectors/teams/#microsoft-teams-webhook
https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
https://developer.work.weixin.qq.com/document/path/91770
"""

import base64
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlsplit, urlunsplit

from webhooks.models import Format

JSON_TYPE = "application/json; charset=utf-8"
AGENT = "Tessera-Webhook/1"
ALERTS_PATH = "/api/v2/alerts"
MOST_LINES = 20
MARGIN = timedelta(hours=1)
"""An Alertmanager ends what is not repeated in time; it is told later than the next repeat."""
COLOURS = {"critical": "#d63939", "warning": "#f59f00", "info": "#4299e1", "": "#868e96"}
ENDED = "#2fb344"
CARD_COLOURS = {"critical": "Attention", "warning": "Warning", "info": "Accent", "": "Default"}
PACES: dict[str, tuple[tuple[int, int], ...]] = {
    Format.SLACK: ((1, 1),),
    Format.TEAMS: ((4, 1),),
    Format.DINGTALK: ((20, 60),),
    Format.FEISHU: ((5, 1), (100, 60)),
    Format.WECOM: ((20, 60),),
}
"""So many messages in so many seconds are what a bot may send."""
TOO_FAST = {130101, 660026, 45009, 11232, 9499}
"""Codes of DingTalk, WeCom and Feishu for a bot that sent too much."""


@dataclass(frozen=True)
class Words:
    """A message for people. lines: details. url: of the page about it. ended: it says that something is over."""

    title: str
    lines: tuple[str, ...] = ()
    url: str = ""
    severity: str = ""
    ended: bool = False

    @property
    def text(self) -> str:
        return "\n".join([f"Tessera: {self.title}", *self.lines, *([self.url] if self.url else [])])


@dataclass(frozen=True)
class Posted:
    """One request."""

    url: str
    body: bytes
    headers: dict[str, str]


def build_chat_request(kind: str, url: str, words: Words, secret: str, now: datetime) -> Posted:
    """Return the request for a chat. secret: of its bot, "" for none."""
    url, message = BUILDERS[kind](url, words, secret, now)
    return _post(url, message)


def build_alertmanager_request(url: str, data: dict, source: str, now: datetime) -> Posted:
    """Return alerts for an Alertmanager. data: of the delivery; with none, one that is over at once, for a test."""
    over = {"label": "test", "subject": "test", "since": now.isoformat(), "ended": now.isoformat()}
    alerts = data.get("alerts") or [over]
    until = now + timedelta(seconds=data.get("repeats_s", 0)) + MARGIN
    message = [
        {
            "labels": {
                "alertname": data.get("rule", "TesseraTest"),
                "severity": data.get("severity", "info"),
                "subject": alert["subject"],
                "instance": alert["label"] or "platform",
                "tessera": source,
            },
            "annotations": {
                "summary": data.get("name", "Tessera"),
                "value": "" if alert.get("value") is None else f"{alert['value']:g} {alert.get('unit', '')}".strip(),
                **({"runbook_url": data["runbook"]} if data.get("runbook") else {}),
            },
            "startsAt": alert["since"],
            "endsAt": alert.get("ended") or until.isoformat(),
            "generatorURL": data.get("url", source),
        }
        for alert in alerts
    ]
    parts = urlsplit(url)
    path = parts.path if parts.path.endswith(ALERTS_PATH) else parts.path.rstrip("/") + ALERTS_PATH
    return _post(urlunsplit(parts._replace(path=path)), message)


def judge_answer(kind: str, body: bytes) -> str:
    """Return "" if a chat took a message, else the error: chats also answer 200 when they refuse."""
    if kind not in (Format.DINGTALK, Format.FEISHU, Format.WECOM):
        return ""
    try:
        said = json.loads(body)
        code = said.get("errcode", said.get("code", said.get("StatusCode"))) if isinstance(said, dict) else None
    except ValueError:
        code = None
    if code == 0:
        return ""
    return "chat_too_fast" if code in TOO_FAST else "chat_refused"


def sign_dingtalk(secret: str, timestamp_ms: int) -> str:
    return _sign(secret, f"{timestamp_ms}\n{secret}")


def sign_feishu(secret: str, timestamp: int) -> str:
    return _sign(f"{timestamp}\n{secret}", "")


def _slack(url: str, words: Words, secret: str, now: datetime) -> tuple[str, object]:
    title, text = (_escape_slack(part) for part in (f"Tessera: {words.title}", "\n".join(words.lines)))
    block = {"color": _colour(words), "fallback": title, "text": text, "mrkdwn_in": []}
    link = {"title": _escape_slack(words.title), "title_link": words.url} if words.url else {}
    return url, {"text": title, "mrkdwn": False, "attachments": [{**block, **link}]}


def _teams(url: str, words: Words, secret: str, now: datetime) -> tuple[str, object]:
    colour = "Good" if words.ended else CARD_COLOURS.get(words.severity, "Default")
    title = {"type": "TextBlock", "size": "Medium", "weight": "Bolder", "wrap": True, "color": colour}
    lines = [{"type": "TextBlock", "wrap": True, "text": _escape_markdown(line)} for line in words.lines]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{**title, "text": _escape_markdown(f"Tessera: {words.title}")}, *lines],
        "actions": [{"type": "Action.OpenUrl", "title": "Tessera", "url": words.url}] if words.url else [],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return url, {"type": "message", "attachments": [attachment]}


def _dingtalk(url: str, words: Words, secret: str, now: datetime) -> tuple[str, object]:
    if secret:
        timestamp = int(now.timestamp() * 1000)
        sign = quote(sign_dingtalk(secret, timestamp), safe="")
        url = f"{url}{'&' if '?' in url else '?'}timestamp={timestamp}&sign={sign}"
    return url, {"msgtype": "text", "text": {"content": _cut(words.text, 18_000)}}


def _feishu(url: str, words: Words, secret: str, now: datetime) -> tuple[str, object]:
    lines: list[list[dict]] = [[{"tag": "text", "text": line}] for line in words.lines]
    if words.url:
        lines.append([{"tag": "a", "text": words.url, "href": words.url}])
    post = {"title": f"Tessera: {words.title}", "content": lines}
    signed = {}
    if secret:
        timestamp = int(now.timestamp())
        signed = {"timestamp": str(timestamp), "sign": sign_feishu(secret, timestamp)}
    return url, {**signed, "msg_type": "post", "content": {"post": {"zh_cn": post}}}


def _wecom(url: str, words: Words, secret: str, now: datetime) -> tuple[str, object]:
    return url, {"msgtype": "text", "text": {"content": _cut(words.text, 2048)}}


BUILDERS: dict[str, Callable[[str, Words, str, datetime], tuple[str, object]]] = {
    Format.SLACK: _slack,
    Format.TEAMS: _teams,
    Format.DINGTALK: _dingtalk,
    Format.FEISHU: _feishu,
    Format.WECOM: _wecom,
}
CHATS = frozenset(BUILDERS)
WITH_SECRET = frozenset({Format.DINGTALK, Format.FEISHU})


def _post(url: str, message: object) -> Posted:
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return Posted(url, body, {"Content-Type": JSON_TYPE, "User-Agent": AGENT})


def _sign(key: str, text: str) -> str:
    return base64.b64encode(hmac.digest(key.encode(), text.encode(), "sha256")).decode()


def _colour(words: Words) -> str:
    return ENDED if words.ended else COLOURS.get(words.severity, COLOURS[""])


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_markdown(text: str) -> str:
    """Leave no link or emphasis in a text of an adaptive card."""
    for letter in "\\[]*_`#":
        text = text.replace(letter, f"\\{letter}")
    return text


def _cut(text: str, most_bytes: int) -> str:
    """Cut text to so many bytes of UTF-8, and say so."""
    encoded = text.encode()
    if len(encoded) <= most_bytes:
        return text
    return encoded[: most_bytes - 3].decode(errors="ignore") + "…"
