"""Probes: /livez checks nothing, /readyz the database."""

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse


class HealthMiddleware:
    """Runs before the Host check: probes use the pod's address."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if look := LOOKS.get(request.path):
            return look()
        return self.get_response(request)


def livez() -> JsonResponse:
    return JsonResponse({"ok": True})


def readyz() -> JsonResponse:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"ok": False, "database": "does not answer"}, status=503)
    return JsonResponse({"ok": True})


LOOKS = {"/livez": livez, "/readyz": readyz}
