"""What the platform leans on beside its database: Valkey and the mail server. Asked now, or told by what was sent."""

import time
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Min
from redis.exceptions import RedisError

from common.cache_server import cache_server
from common.resources import MIB
from events.models import Notice

NEWEST_NOTICES = 1000
"""How far back the last mails are looked for, so that a page never reads the whole table."""
REFUSED = "mail_refused"


@dataclass(frozen=True)
class ValkeyState:
    """answers: to a ping now, in took_ms. limit_mib: 0 where Valkey has none."""

    answers: bool
    version: str = ""
    took_ms: int | None = None
    used_mib: int = 0
    limit_mib: int = 0

    @property
    def is_nearly_full(self) -> bool:
        return bool(self.limit_mib) and self.used_mib > 0.9 * self.limit_mib


@dataclass(frozen=True)
class MailState:
    """accepted_at: when the server last took a mail. failed_of: when the newest notice was made whose last try failed.
    waiting: mails that failed and are tried again. waiting_since: when the oldest of these was made.
    """

    is_on: bool
    accepted_at: datetime | None = None
    failed_of: datetime | None = None
    waiting: int = 0
    waiting_since: datetime | None = None

    @property
    def is_down(self) -> bool:
        """Whether mails wait, and the server has taken none since the first of them was made."""
        return self.waiting_since is not None and (self.accepted_at is None or self.accepted_at < self.waiting_since)


def ask_valkey() -> ValkeyState:
    """Ask it for its version and memory. One that is away or frozen is told within a second."""
    began = time.monotonic()
    try:
        server = cache_server()
        server.ping()
        took_ms = round(1000 * (time.monotonic() - began))
        said = server.info()
    except RedisError:
        return ValkeyState(False)
    version = str(said.get("valkey_version") or said.get("redis_version", ""))
    return ValkeyState(True, version, took_ms, said["used_memory"] // MIB, said.get("maxmemory", 0) // MIB)


def load_mail_state() -> MailState:
    """Return how mails of notices went; no mail is sent for it."""
    if not settings.TESSERA_MAIL:
        return MailState(False)
    newest = list(Notice.objects.order_by("-pk").values_list("sent_at", "error", "created_at")[:NEWEST_NOTICES])
    failing = Notice.objects.filter(due_at__isnull=False, error=REFUSED)
    waiting = failing.aggregate(n=Count("pk"), since=Min("created_at"))
    return MailState(
        True,
        max((sent_at for sent_at, _, _ in newest if sent_at), default=None),
        next((made_at for _, error, made_at in newest if error == REFUSED), None),
        waiting["n"],
        waiting["since"],
    )
