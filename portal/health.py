"""Probes: /livez checks nothing, /readyz the database."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from time import monotonic
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse

log = logging.getLogger("tessera.portal")

PROBE_S, PROBE_AGAIN_S = 3, 60


class HealthMiddleware:
    """Runs before the Host check: probes and Prometheus use the pod's address."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if probe := PROBES.get(request.path):
            return probe()
        if request.path in SCRAPED:
            request.META["HTTP_HOST"] = urlsplit(settings.TESSERA_PUBLIC_URL).netloc
        return self.get_response(request)


def livez() -> JsonResponse:
    return JsonResponse({"ok": True})


class DatabaseProbe:
    """Asks the database, in one thread however often it is asked: a frozen one takes questions and answers none.

    By a connection of its own: that all of the pool are in use says nothing about the database.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._answer: Future[bool] | None = None
        self._asked_at = 0.0

    def answers(self) -> bool:
        """Return whether it answers within PROBE_S."""
        with self._lock:
            lost = monotonic() - self._asked_at > PROBE_AGAIN_S  # with its machine: nobody will ever tell
            if self._answer is None or self._answer.done() or lost:
                self._answer, self._asked_at = Future(), monotonic()
                Thread(target=self._ask, args=(self._answer,), daemon=True).start()
            answer = self._answer
        try:
            return answer.result(PROBE_S)
        except TimeoutError:
            return False

    @staticmethod
    def _ask(answer: Future[bool]) -> None:
        try:
            with psycopg.connect(**connection.get_connection_params(), connect_timeout=PROBE_S) as asked:
                asked.execute("SELECT 1")
            answer.set_result(True)
        except Exception as away:
            log.warning("the database does not answer a probe: %s", away)
            answer.set_result(False)


database_probe = DatabaseProbe()


def readyz() -> JsonResponse:
    if not database_probe.answers():
        return JsonResponse({"ok": False, "database": "does not answer"}, status=503)
    return JsonResponse({"ok": True})


SCRAPED = frozenset({"/metrics", "/metrics/targets"})
PROBES = {"/livez": livez, "/readyz": readyz}
