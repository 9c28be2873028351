"""API of the image catalogue and registry logins."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from images.catalogue import delete_image, filter_visible_images, find_image, save_image
from images.logins import MOST_PASSWORD, delete_login, find_login, logins_seen_by, save_login
from images.models import ALIAS, Image, Login, check_reference, check_registry
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.http.teams import find_team_where
from portal.api.view import ApiView, read_query
from portal.image_view import view_images

READ, WRITE = ("cluster:read",), ("cluster:write",)


class FailedFetch(serializers.Serializer):
    """words: the engine's own."""

    node = serializers.SerializerMethodField()
    words = serializers.SerializerMethodField()

    def get_node(self, failed: tuple[str, str]) -> str:
        return failed[0]

    def get_words(self, failed: tuple[str, str]) -> str:
        return failed[1]


class ImageShape(serializers.Serializer):
    """team: null is everybody's. digest: what jobs run; "" before the registry's first answer. problem: bad_name,
    not_found, denied, refused, forbidden_address, unresolved, timeout, tls, unreachable, or "". nodes: usable ones
    that hold it, of `of_nodes`. prepull: machines fetch it ahead of jobs; fetching, failed: where.
    """

    id = serializers.IntegerField(source="image.pk")
    alias = serializers.CharField(source="image.alias")
    reference = serializers.CharField(source="image.reference")
    description = serializers.CharField(source="image.description", allow_blank=True)
    team = serializers.CharField(source="image.team.name", default=None, allow_null=True)
    digest = serializers.CharField(source="image.digest", allow_blank=True)
    problem = serializers.CharField(source="image.problem", allow_blank=True)
    problem_text = serializers.CharField(allow_blank=True)
    checked_at = serializers.DateTimeField(source="image.checked_at", allow_null=True)
    nodes = serializers.ListField(child=serializers.CharField())
    of_nodes = serializers.IntegerField()
    prepull = serializers.BooleanField(source="image.prepull")
    fetching = serializers.ListField(child=serializers.CharField())
    failed = FailedFetch(many=True)


class ImageAsk(serializers.Serializer):
    """alias: its name in jobs. reference: like registry/name:tag. team: left out, it is everybody's."""

    alias = serializers.CharField(max_length=63, validators=[ALIAS])
    reference = serializers.CharField(max_length=400, validators=[check_reference])
    description = serializers.CharField(max_length=200, allow_blank=True, default="")
    prepull = serializers.BooleanField(default=False)
    team = serializers.CharField(max_length=32, required=False, allow_null=True)


class ImageChange(serializers.Serializer):
    """What is left out stays as it is."""

    alias = serializers.CharField(max_length=63, validators=[ALIAS], required=False)
    reference = serializers.CharField(max_length=400, validators=[check_reference], required=False)
    description = serializers.CharField(max_length=200, allow_blank=True, required=False)
    prepull = serializers.BooleanField(required=False)


class LoginShape(serializers.Serializer):
    """Without the password, which cannot be read."""

    id = serializers.IntegerField(source="pk")
    registry = serializers.CharField()
    user = serializers.CharField()
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    changed_at = serializers.DateTimeField()


class LoginAsk(serializers.Serializer):
    """registry: host, with its port. team: left out, it is for all teams."""

    registry = serializers.CharField(max_length=255, validators=[check_registry])
    user = serializers.CharField(max_length=200)
    password = serializers.CharField(max_length=MOST_PASSWORD, trim_whitespace=False)
    team = serializers.CharField(max_length=32, required=False, allow_null=True)


class LoginChange(serializers.Serializer):
    """What is left out stays as it is."""

    user = serializers.CharField(max_length=200, required=False)
    password = serializers.CharField(max_length=MOST_PASSWORD, trim_whitespace=False, required=False)


class ImageList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_images", "POST": "create_image"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(ImageShape, "ImageList"))
    def get(self, request: Request) -> Response:
        """List everybody's images and those of one's teams, by alias."""
        return all_of(view_images(filter_visible_images(request.user)), ImageShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: ImageAsk}, responses={201: OpenApiResponse(ImageShape)})
    def post(self, request: Request) -> Response:
        """Add an image: everybody's by an admin, a team's by its lead too."""
        asked = read_json(request, ImageAsk)
        team = find_team_where(request.user, "image.change", asked.pop("team", None))
        image = save_image(actor=request.user, image=Image(team=team, **asked))
        where = {"Location": full_url("api-image", image_id=image.pk)}
        return Response(_show(request, image.pk), status=201, headers=where)


class ImageDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_image", "PATCH": "change_image", "DELETE": "delete_image"}
    refusals = {"PATCH": ("409",)}

    @extend_schema(responses=ImageShape)
    def get(self, request: Request, image_id: int) -> Response:
        return Response(_show(request, image_id))

    @extend_schema(request={JSON: ImageChange}, responses=ImageShape)
    def patch(self, request: Request, image_id: int) -> Response:
        """Change an image. Submitted jobs keep theirs."""
        image = find_image(request.user, image_id)
        for name, value in read_json(request, ImageChange).items():
            setattr(image, name, value)
        save_image(actor=request.user, image=image)
        return Response(_show(request, image_id))

    @extend_schema(responses={204: OpenApiResponse(None, "Nobody finds it in the catalogue any more.")})
    def delete(self, request: Request, image_id: int) -> Response:
        """Delete an image. Submitted jobs keep theirs."""
        delete_image(actor=request.user, image=find_image(request.user, image_id))
        return Response(status=204)


class RegistryList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_registries", "POST": "create_registry_login"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(LoginShape, "RegistryList"))
    def get(self, request: Request) -> Response:
        """List registry logins of the teams that one leads; admins see all."""
        return all_of(logins_seen_by(request.user), LoginShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: LoginAsk}, responses={201: OpenApiResponse(LoginShape)})
    def post(self, request: Request) -> Response:
        """Add a registry login: a team's by its lead or an admin, for all by an admin."""
        asked = read_json(request, LoginAsk)
        team = find_team_where(request.user, "registry.change", asked.pop("team", None))
        password = asked.pop("password")
        login = save_login(actor=request.user, login=Login(team=team, **asked), password=password)
        where = {"Location": full_url("api-registry", login_id=login.pk)}
        return Response(LoginShape(login).data, status=201, headers=where)


class RegistryDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_registry_login", "PATCH": "change_registry_login", "DELETE": "delete_registry_login"}

    @extend_schema(responses=LoginShape)
    def get(self, request: Request, login_id: int) -> Response:
        return Response(LoginShape(find_login(request.user, login_id)).data)

    @extend_schema(request={JSON: LoginChange}, responses=LoginShape)
    def patch(self, request: Request, login_id: int) -> Response:
        """Change user or password for all that starts from now on."""
        login, asked = find_login(request.user, login_id), read_json(request, LoginChange)
        login.user = asked.get("user", login.user)
        login = save_login(actor=request.user, login=login, password=asked.get("password", ""))
        return Response(LoginShape(login).data)

    @extend_schema(responses={204: OpenApiResponse(None, "Nothing is fetched with it any more.")})
    def delete(self, request: Request, login_id: int) -> Response:
        """Delete a login; the team's next job removes it from the cluster. It stays valid at the registry: withdraw
        it there.
        """
        delete_login(actor=request.user, login=find_login(request.user, login_id))
        return Response(status=204)


def _show(request: Request, image_id: int) -> dict[str, Any]:
    (view,) = view_images([find_image(request.user, image_id)])
    return ImageShape(view).data
