"""Sign-in on an app's host: the portal issues a code that is exchanged for a session."""

import re
from urllib.parse import parse_qs, urlencode

from channels.db import database_sync_to_async
from django.conf import settings

from portal.access.app_links import app_origin
from portal.access.app_sessions import SESSION_S, redeem_code
from portal.gateway.http import error_texts
from portal.gateway.http.cookies import STATE_S, read_cookie, session_cookie, set_cookie, state_cookie, usable_state
from portal.gateway.http.cross_origin import Headers
from portal.gateway.http.responses import Answer, build_error_answer, redirect

ENTER = "/.tessera/enter"
PATH = re.compile(r"/[!-~]{0,2000}")


def ask_portal(label: str, path: str, headers: Headers) -> Answer:
    """Redirect to the portal's sign-in, to return to `path` with query. Raises Tossed."""
    state = usable_state(headers, label)
    asked = urlencode({"app": label, "state": state, "next": path if PATH.fullmatch(path) else "/"})
    kept = set_cookie(state_cookie(label), state, STATE_S)
    return redirect(f"{settings.TESSERA_PUBLIC_URL}/apps/authorize?{asked}", kept)


async def redeem(label: str, query: str, method: str, headers: Headers) -> Answer:
    """Exchange the code for a session cookie, if the browser holds the state. Raises Tossed."""
    given = parse_qs(query)
    code, state = given.get("code", [""])[0], given.get("state", [""])[0]
    if method != "GET" or not state or read_cookie(headers, state_cookie(label)) != state:
        return build_error_answer(400, error_texts.describe_used_code(), method, headers)
    found = await database_sync_to_async(redeem_code)(label=label, code=code, state=state)
    if found is None:
        return build_error_answer(400, error_texts.describe_used_code(), method, headers)
    secret, path = found
    return redirect(app_origin(label) + path, set_cookie(session_cookie(label), secret, SESSION_S))
