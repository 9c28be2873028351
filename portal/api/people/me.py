"""API of the caller and their tokens."""

from django.conf import settings
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import ApiToken, Membership, User
from accounts.profile import PROFILE_FIELDS, change_profile
from accounts.scopes import SCOPES
from accounts.services import create_token, revoke_token
from portal.api.http.bodies import JSON, read_json
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.permissions import SIGNED_IN
from portal.api.view import ApiView, read_query


class MemberOf(serializers.Serializer):
    name = serializers.CharField(source="team.name")
    title = serializers.CharField(source="team.title", allow_blank=True)
    gid = serializers.IntegerField(source="team.gid")
    role = serializers.CharField()


class TokenShape(serializers.Serializer):
    """A token without its secret. prefix: how the secret begins.

    made_by: id of the token that created it and whose end ends it, too; null if a person did. held_by: the job whose
    tasks have it and at whose end it ends, such as job-412; empty of a person's.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    made_by = serializers.IntegerField(source="made_by_id", allow_null=True)
    held_by = serializers.CharField(allow_blank=True)


class NewTokenShape(TokenShape):
    """secret: shown only in this answer."""

    secret = serializers.CharField()


class TokenAsk(serializers.Serializer):
    """scopes: of the caller's. days: until it expires; 90, or as long as the asking token lives if that is less.

    More days than the asking token has left are refused.
    """

    name = serializers.CharField(max_length=64)
    scopes = serializers.ListField(child=serializers.CharField(max_length=32), max_length=len(SCOPES))
    days = serializers.IntegerField(required=False)


class MeShape(serializers.Serializer):
    """The user, and this call's scopes; a session has all. token: null for a session."""

    username = serializers.CharField()
    full_name = serializers.CharField(allow_blank=True)
    email = serializers.CharField(allow_blank=True)
    uid = serializers.IntegerField()
    platform_role = serializers.CharField()
    language = serializers.CharField(allow_blank=True)
    time_zone = serializers.CharField(allow_blank=True)
    teams = MemberOf(many=True)
    scopes = serializers.ListField(child=serializers.CharField())
    token = TokenShape(allow_null=True)


class MeChange(serializers.Serializer):
    """What is left out stays as it is. language, time_zone: "" for the browser's and the site's."""

    full_name = serializers.CharField(max_length=100, allow_blank=True, required=False)
    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    language = serializers.ChoiceField(settings.LANGUAGES, allow_blank=True, required=False)
    time_zone = serializers.CharField(max_length=64, allow_blank=True, required=False)


class Me(ApiView):
    scopes = {"GET": SIGNED_IN, "PATCH": ("profile:write",)}
    operations = {"GET": "get_me", "PATCH": "change_me"}

    @extend_schema(responses=MeShape)
    def get(self, request: Request) -> Response:
        return _show(request, request.user)

    @extend_schema(request={JSON: MeChange}, responses=MeShape)
    def patch(self, request: Request) -> Response:
        """Change one's own name, mail address, language or time zone (an IANA name, such as Asia/Shanghai)."""
        return _show(request, change_profile(request.user, **read_json(request, MeChange)))


class Tokens(ApiView):
    scopes = {"GET": ("tokens:write",), "POST": ("tokens:write",)}
    operations = {"GET": "list_tokens", "POST": "create_token"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(TokenShape, "TokenList"))
    def get(self, request: Request) -> Response:
        """List one's own tokens that are not revoked."""
        tokens = ApiToken.objects.filter(user=request.user, revoked_at__isnull=True)
        return all_of(tokens, TokenShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: TokenAsk}, responses={201: OpenApiResponse(NewTokenShape)})
    def post(self, request: Request) -> Response:
        """Create a token that is no stronger than the asking one and never outlives it."""
        asked = read_json(request, TokenAsk)
        token, secret = create_token(user=request.user, made_by=request.auth, **asked)
        token.refresh_from_db()
        return Response({**TokenShape(token).data, "secret": secret}, status=201)


class TokenDetail(ApiView):
    scopes = {"DELETE": ("tokens:write",)}
    operations = {"DELETE": "revoke_token"}

    @extend_schema(responses={204: OpenApiResponse(None, "It works no more.")})
    def delete(self, request: Request, token_id: int) -> Response:
        """Revoke one of one's own tokens for good, and all that it created."""
        revoke_token(user=request.user, token_id=token_id)
        return Response(status=204)


def _show(request: Request, user: User) -> Response:
    person = {name: getattr(user, name) for name in ("username", "uid", "platform_role", *PROFILE_FIELDS)}
    teams = Membership.objects.filter(user=user).select_related("team").order_by("team__name")
    scopes = request.auth.scopes if request.auth else list(SCOPES)
    return Response(MeShape({**person, "teams": teams, "scopes": scopes, "token": request.auth}).data)
