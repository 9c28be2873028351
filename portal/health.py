"""Is it up, and can it serve. /livez asks nothing of others; /readyz asks the database."""

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse


class HealthMiddleware:
    """Stands before the host's name is checked: who probes calls a pod by its address, which is no name of ours."""

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
