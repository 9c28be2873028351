"""Is it up, and can it serve. /livez asks nothing of others; /readyz asks the database."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse


def livez(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"ok": True})


def readyz(request: HttpRequest) -> JsonResponse:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"ok": False, "database": "does not answer"}, status=503)
    return JsonResponse({"ok": True})
