"""What a token may be used for. Whether its person may do it is asked in the services (accounts.permissions)."""

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from cluster.models import Agent
from common.errors import NotPermitted, NotSignedIn

if TYPE_CHECKING:  # REST framework's views import this module by its name in the settings
    from rest_framework.views import APIView

ANYBODY: tuple[str, ...] = ("*",)
"""Also for those who are not signed in."""
AGENT: tuple[str, ...] = ("its agent",)
"""The agent of a machine, with the key that it enrolled with; no person and no token of one."""
SIGNED_IN: tuple[str, ...] = ()
"""Any token of any scope will do."""


class HasScope(BasePermission):
    """Each view says `scopes = {method: scopes that are needed}`; a method that says nothing is closed to everybody."""

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
    """None where the view does not say. HEAD asks for what GET asks for."""
    return getattr(view, "scopes", {}).get("GET" if method == "HEAD" else method)
