"""API of what GPU-hours cost, for admins."""

from django.conf import settings
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.permissions import require
from common.errors import NotFound
from monitoring.costs.prices import create_price, delete_price
from monitoring.models import Price
from monitoring.models.prices import MOST_MILLI
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import PoolField, full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query

READ, WRITE = ("reports:read",), ("cluster:write",)


class PriceAsk(serializers.Serializer):
    """From begins on, 00:00 UTC, a GPU-hour of the pool (null: all) and model (empty: all) costs so many thousandths.
    The most exact price holds: that of pool and model, of the pool, of the model, of all.
    """

    pool = PoolField(allow_null=True, default=None)
    model = serializers.CharField(max_length=64, allow_blank=True, default="")
    begins = serializers.DateField()
    milli = serializers.IntegerField(min_value=0, max_value=MOST_MILLI)


class PriceShape(serializers.Serializer):
    """currency: of the whole installation, as TESSERA_CURRENCY says; may be empty."""

    id = serializers.IntegerField(source="pk")
    pool = serializers.CharField(source="pool.name", default=None, allow_null=True)
    model = serializers.CharField(allow_blank=True)
    begins = serializers.DateField()
    milli = serializers.IntegerField()
    currency = serializers.SerializerMethodField()

    def get_currency(self, price: Price) -> str:
        return settings.TESSERA_CURRENCY


class PriceList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_prices", "POST": "create_price"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(PriceShape, "PriceList"))
    def get(self, request: Request) -> Response:
        """List the prices. For administrators and auditors; others see costs in their reports."""
        require(request.user, "platform.read")
        return all_of(Price.objects.select_related("pool"), PriceShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: PriceAsk}, responses={201: OpenApiResponse(PriceShape)})
    def post(self, request: Request) -> Response:
        """Add a price. Reports have costs once there is one. For administrators."""
        require(request.user, "price.change")
        price = create_price(actor=request.user, price=Price(**read_json(request, PriceAsk)))
        where = {"Location": full_url("api-price", price_id=price.pk)}
        return Response(PriceShape(price).data, status=201, headers=where)


class PriceDetail(ApiView):
    scopes = {"GET": READ, "DELETE": WRITE}
    operations = {"GET": "get_price", "DELETE": "delete_price"}

    @extend_schema(responses=PriceShape)
    def get(self, request: Request, price_id: int) -> Response:
        """Tell a price. For administrators and auditors."""
        require(request.user, "platform.read")
        return Response(PriceShape(_find(price_id)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "It is gone, also from reports of the past.")})
    def delete(self, request: Request, price_id: int) -> Response:
        """Delete a price. For administrators."""
        require(request.user, "price.change")
        delete_price(actor=request.user, price=_find(price_id))
        return Response(status=204)


def _find(price_id: int) -> Price:
    price = Price.objects.filter(pk=price_id).select_related("pool").first()
    if price is None:
        raise NotFound(kind="price", id=str(price_id))
    return price
