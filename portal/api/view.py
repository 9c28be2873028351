"""Base of API views."""

from types import SimpleNamespace
from typing import Any

from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.api.http.rates import add_rate_headers, count_call

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
