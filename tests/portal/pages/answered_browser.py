"""A browser whose requests Django's own test client answers: no web process, and a test may hold an answer back."""

import mimetypes
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections
from django.utils.html import escape

ADDRESS = "http://localhost"
ELSEWHERE = '<meta http-equiv="refresh" content="0;url={}">'
"""In place of a redirect, which a headless shell follows without asking `route`."""
PASSED_ON = {"content-type", "x-csrftoken", "origin", "hx-request", "hx-target"}


class Portal:
    """Answers the browser as one person: `page.route("**/*", portal.answer)`.

    with_policy: whether the browser is told what it may load, as in life.
    """

    def __init__(self, client, *, with_policy: bool = False):
        self.client = client
        self.passed_back = ["Content-Type", "Location"] + ["Content-Security-Policy"] * with_policy

    def answer(self, route):
        path = urlsplit(route.request.url).path
        if path.startswith("/static/"):
            file = settings.ROOT / path.lstrip("/")
            route.fulfill(body=file.read_bytes(), content_type=mimetypes.guess_type(path)[0])
        else:
            self.pass_on(route)

    def pass_on(self, route):
        asked = route.request
        headers = {name: value for name, value in asked.headers.items() if name in PASSED_ON}
        kind = headers.pop("content-type", "")
        with ThreadPoolExecutor(1) as pool:  # Playwright's event loop runs in this thread
            answer = pool.submit(
                self._ask, asked.method, asked.url, asked.post_data_buffer or b"", kind, headers
            ).result()
        sent = {name: answer[name] for name in self.passed_back if name in answer}
        if "Location" in sent and asked.resource_type == "document":
            route.fulfill(body=ELSEWHERE.format(escape(sent["Location"])), content_type="text/html")
        else:
            route.fulfill(status=answer.status_code, body=answer.content, headers=sent)

    def _ask(self, method, url, body, kind, headers):
        try:
            where, headers = urlsplit(url), {**headers, "Host": "localhost"}
            path = f"{where.path}?{where.query}"
            return self.client.generic(method, path, body, content_type=kind, headers=headers)
        finally:
            connections.close_all()
