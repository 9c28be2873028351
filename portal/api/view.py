"""Base of API views, which counts calls against the rate limits.

Limits are told in headers of draft-ietf-httpapi-ratelimit-headers-10. Without the cache nobody is stopped.
"""

from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from cluster.models import Agent
from common.errors import TooManyRequests
from common.rates import Window, count_uses

MAX_ID = 2**63 - 1


class ByAcceptOnly(DefaultContentNegotiation):
    """Without REST framework's `?format=`."""

    settings = SimpleNamespace(URL_FORMAT_OVERRIDE=None)  # type: ignore[assignment]


class ApiView(APIView):
    """Base of API views; portal.api.http.problems handles exceptions.

    scopes: {"GET": ("jobs:read",)}; methods without an entry are refused. rates: {"POST": ("submits",)}, policies of
    settings.TESSERA_RATES besides "calls".
    """

    scopes: dict[str, tuple[str, ...]] = {}
    rates: dict[str, tuple[str, ...]] = {}
    http_method_names = ["get", "head", "post", "patch", "delete"]
    metadata_class = None
    content_negotiation_class = ByAcceptOnly

    def perform_authentication(self, request: Request) -> None:
        """Count calls as soon as the caller is known, also refused ones."""
        super().perform_authentication(request)
        count_call(request, ("calls", *self.rates.get(request.method or "", ())))

    def finalize_response(self, request: Request, response: HttpResponseBase, *args: Any, **named: Any) -> Any:
        """Answer problems as JSON at every address."""
        response = super().finalize_response(request, response, *args, **named)
        if getattr(response, "exception", False):
            response.accepted_renderer = JSONRenderer()  # type: ignore[attr-defined]
        add_rate_headers(request, response)
        return response


def read_query(request: Request, shape: type[serializers.Serializer]) -> dict[str, Any]:
    """Validate the query; unknown names are ignored."""
    query = shape(data=request.query_params.dict())
    query.is_valid(raise_exception=True)
    return query.validated_data


def count_call(request: Request, policies: tuple[str, ...]) -> None:
    """Count a call of a person or an agent; visitors are not counted. Raises TooManyRequests.

    policies: in settings.TESSERA_RATES. All tokens and sessions of a person count together: a token can create others.
    """
    if not request.user.is_authenticated:
        return
    who = f"{'agent' if isinstance(request.auth, Agent) else 'person'}-{request.user.pk}"
    limits = {f"api {name}": settings.TESSERA_RATES[name] for name in policies if settings.TESSERA_RATES[name][0]}
    windows = {what.removeprefix("api "): window for what, window in count_uses(limits, who).items()} if limits else {}
    request._request.rate_windows = windows  # type: ignore[attr-defined]
    if over := [window for window in windows.values() if window.used > window.limit]:
        raise TooManyRequests(retry_after_s=max(window.ends_in_s for window in over))


def add_rate_headers(request: Request, response: HttpResponseBase) -> None:
    windows: dict[str, Window] = getattr(request._request, "rate_windows", {})
    if windows:
        response["RateLimit-Policy"] = ", ".join(
            f'"{name}";q={window.limit};w={settings.TESSERA_RATES[name][1]}' for name, window in windows.items()
        )
    if known := {name: window for name, window in windows.items() if window.used}:
        response["RateLimit"] = ", ".join(
            f'"{name}";r={window.left};t={window.ends_in_s}' for name, window in known.items()
        )
