"""Where a person's request came from, for the audit log."""

from typing import Any

from django.http import HttpRequest

from events.record_and_publish import Origin


def mark_origin(user: Any, request: HttpRequest, via: str = "") -> Any:
    """Let what `user` does in this request say where it came from. via: how the token begins."""
    user.origin = Origin(via, address_of(request), getattr(request, "request_id", ""))
    return user


def address_of(request: HttpRequest) -> str:
    """Return the client's IP address; proxy headers are the web server's task."""
    return request.META.get("REMOTE_ADDR", "")
