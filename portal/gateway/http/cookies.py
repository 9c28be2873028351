"""Cookies for app sessions and sign-in state on an app's host.

Over https they have the prefix __Host-, which other hosts cannot set; a duplicate name is somebody else's.
"""

import re
import secrets

from django.conf import settings

from portal.access.app_links import LABEL
from portal.gateway.http.cross_origin import Headers, cookies_of

STATE = re.compile(r"[A-Za-z0-9_-]{43}")
STATE_S = 600
OURS = re.compile(rf"__host-app(-state)?|app_{LABEL.pattern}(_state)?|(__host-)?tessera|tessera-known", re.IGNORECASE)


class Tossed(Exception):
    """One of our cookies was sent twice."""


def session_cookie(label: str) -> str:
    return "__Host-app" if _secure() else f"app_{label}"


def state_cookie(label: str) -> str:
    return "__Host-app-state" if _secure() else f"app_{label}_state"


def read_cookie(headers: Headers, name: str) -> str:
    values = [value for key, value in cookies_of(headers) if key == name]
    if len(values) > 1:
        raise Tossed(name)
    return values[0] if values else ""


def set_cookie(name: str, value: str, max_age: int) -> tuple[bytes, bytes]:
    secure = "; Secure" if _secure() else ""
    return b"set-cookie", f"{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}".encode()


def usable_state(headers: Headers, label: str) -> str:
    """Return the browser's valid sign-in state, so that several tabs can sign in at once, or a new one."""
    kept = read_cookie(headers, state_cookie(label))
    return kept if STATE.fullmatch(kept) else secrets.token_urlsafe(32)


def is_ours(name: str) -> bool:
    """Return whether apps may neither see nor set this cookie; case is ignored, as __host- is __Host-."""
    return bool(OURS.fullmatch(name)) or name == settings.SESSION_COOKIE_NAME


def _secure() -> bool:
    return settings.TESSERA_APPS_URL.startswith("https:")
