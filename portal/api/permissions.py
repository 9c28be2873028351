"""Scopes of tokens; users' own rights are checked by services (accounts.permissions)."""

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from cluster.models import Agent
from common.errors import NotPermitted, NotSignedIn

if TYPE_CHECKING:  # REST framework's views import this module
    from rest_framework.views import APIView

ANYBODY: tuple[str, ...] = ("*",)
"""Also visitors who are not signed in."""
AGENT: tuple[str, ...] = ("its agent",)
"""Only the agent of a machine, with its enrolled key."""
SIGNED_IN: tuple[str, ...] = ()
"""Any token, whatever its scopes."""


class HasScope(BasePermission):
    """Checks a view's `scopes = {method: needed}`; methods without an entry are closed."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        needed = scopes_of(view, request.method or "")
        if needed == ANYBODY:
            return True
        if not request.user.is_authenticated:
            raise NotSignedIn()
        if needed == AGENT:
            if not isinstance(request.auth, Agent):
                raise NotPermitted("not_an_agent")
            return True
        if needed is None and request.method in view.allowed_methods:
            raise NotPermitted("no_scope_declared")
        held = needed or () if request.auth is None else getattr(request.auth, "scopes", ())  # an agent has none
        if missing := [scope for scope in needed or () if scope not in held]:
            raise NotPermitted("missing_scope", scope=missing[0])
        return True


def scopes_of(view: "APIView", method: str) -> tuple[str, ...] | None:
    """Return a view's scopes, None if undeclared. HEAD is as GET."""
    return getattr(view, "scopes", {}).get("GET" if method == "HEAD" else method)
