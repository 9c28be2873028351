"""API of people, for admins; auditors read."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.directory import (
    change_person,
    create_person,
    create_sign_in_link,
    find_person,
    find_team,
    invite_person,
    readmit_person,
    set_member,
    suspend_person,
)
from accounts.models import PlatformRole, TeamRole
from accounts.permissions import require
from accounts.services import INVITATION_LIFETIME, LINK_LIFETIME
from portal.access.admin_lists import filter_people
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import PageQuery, SortField, list_of, page, read_name
from portal.api.view import ApiView, read_query

SCOPE = ("people:write",)


class TeamOfPerson(serializers.Serializer):
    name = serializers.CharField(source="team.name")
    role = serializers.ChoiceField(TeamRole.choices)


class PersonShape(serializers.Serializer):
    """suspended_at: null for a person with access. uid: owner of their files."""

    username = serializers.CharField()
    full_name = serializers.CharField(allow_blank=True)
    email = serializers.CharField(allow_blank=True)
    uid = serializers.IntegerField()
    platform_role = serializers.ChoiceField(PlatformRole.choices)
    joined_at = serializers.DateTimeField()
    last_login = serializers.DateTimeField(allow_null=True)
    suspended_at = serializers.DateTimeField(allow_null=True)
    teams = TeamOfPerson(many=True, source="memberships")


class PersonChange(serializers.Serializer):
    """What is left out stays as it is. suspended: blocks all access at once; running jobs continue."""

    full_name = serializers.CharField(max_length=100, allow_blank=True, required=False)
    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    platform_role = serializers.ChoiceField(PlatformRole.choices, required=False)
    suspended = serializers.BooleanField(required=False)


class PersonAsk(serializers.Serializer):
    """uid: owner of their files; left out, the next free one. team, role: what they join at once, if anything."""

    username = serializers.CharField(max_length=32)
    full_name = serializers.CharField(max_length=100, allow_blank=True, default="")
    email = serializers.EmailField(max_length=254, allow_blank=True, default="")
    platform_role = serializers.ChoiceField(PlatformRole.choices, default=PlatformRole.NONE)
    uid = serializers.IntegerField(min_value=1000, max_value=2**31 - 1, allow_null=True, default=None)
    team = serializers.CharField(max_length=32, allow_null=True, default=None)
    role = serializers.ChoiceField(TeamRole.choices, default=TeamRole.MEMBER)


class InvitationAsk(serializers.Serializer):
    """team, role: what the person joins."""

    team = serializers.CharField(max_length=32)
    role = serializers.ChoiceField(TeamRole.choices, default=TeamRole.MEMBER)


class OneTimeLink(serializers.Serializer):
    """url: works once, until expires_at, and is shown only in this answer."""

    url = serializers.CharField()
    expires_at = serializers.DateTimeField()


class PeopleQuery(PageQuery):
    """q: part of the user name, name or address. team: members of it. suspended: only those, or only others."""

    sort = SortField({"username": read_name}, default="username")
    q = serializers.CharField(max_length=100, required=False)
    team = serializers.CharField(max_length=32, required=False)
    suspended = serializers.BooleanField(required=False, allow_null=True, default=None)


class PersonList(ApiView):
    scopes = {"GET": SCOPE, "POST": SCOPE}
    operations = {"GET": "list_people", "POST": "create_person"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[PeopleQuery], responses=list_of(PersonShape, "PersonList"))
    def get(self, request: Request) -> Response:
        """List people. For administrators and auditors."""
        require(request.user, "platform.read")
        query = read_query(request, PeopleQuery)
        return page(filter_people(query.get("q", ""), query.get("team", ""), query["suspended"]), query, PersonShape)

    @extend_schema(request={JSON: PersonAsk}, responses={201: OpenApiResponse(PersonShape)})
    def post(self, request: Request) -> Response:
        """Create an account without a password: send its person a sign-in link. For administrators."""
        require(request.user, "person.change")
        asked = read_json(request, PersonAsk)
        name, role = asked.pop("team"), asked.pop("role")
        team = find_team(name, "/team") if name else None
        with transaction.atomic():
            user = create_person(actor=request.user, **asked)
            if team:
                set_member(actor=request.user, team=team, user=user, role=role)
        where = {"Location": full_url("api-person", name=user.username)}
        return Response(_show(user.username), status=201, headers=where)


class PersonDetail(ApiView):
    scopes = {"GET": SCOPE, "PATCH": SCOPE}
    operations = {"GET": "get_person", "PATCH": "change_person"}

    @extend_schema(responses=PersonShape)
    def get(self, request: Request, name: str) -> Response:
        """For administrators and auditors."""
        require(request.user, "platform.read")
        return Response(_show(name))

    @extend_schema(request={JSON: PersonChange}, responses=PersonShape)
    def patch(self, request: Request, name: str) -> Response:
        """Change an account, suspend it, or give it access again. For administrators, and not for one's own role."""
        require(request.user, "person.change")
        user, asked = find_person(name), read_json(request, PersonChange)
        suspended = asked.pop("suspended", not user.is_active)
        with transaction.atomic():
            change_person(actor=request.user, user=user, **asked)
            if suspended == user.is_active:
                let_in_or_out = suspend_person if suspended else readmit_person
                let_in_or_out(actor=request.user, user=user)
        return Response(_show(name))


class PersonLink(ApiView):
    scopes = {"POST": SCOPE}
    operations = {"POST": "create_sign_in_link"}

    @extend_schema(request=None, responses={201: OpenApiResponse(OneTimeLink)})
    def post(self, request: Request, name: str) -> Response:
        """Create a link that signs the person in once: also for a forgotten password. For administrators."""
        require(request.user, "person.change")
        return _link(create_sign_in_link(actor=request.user, user=find_person(name)), LINK_LIFETIME)


class PersonInvite(ApiView):
    scopes = {"POST": SCOPE}
    operations = {"POST": "invite_person"}

    @extend_schema(request={JSON: InvitationAsk}, responses={201: OpenApiResponse(OneTimeLink)})
    def post(self, request: Request) -> Response:
        """Create a link by which one person makes an account in a team. For administrators."""
        require(request.user, "person.invite")
        asked = read_json(request, InvitationAsk)
        path = invite_person(actor=request.user, team=find_team(asked["team"], "/team"), role=asked["role"])
        return _link(path, INVITATION_LIFETIME)


def _show(name: str) -> dict[str, Any]:
    return PersonShape(filter_people().get(username__iexact=find_person(name).username)).data


def _link(path: str, lifetime: timedelta) -> Response:
    shown = {"url": settings.TESSERA_PUBLIC_URL + path, "expires_at": timezone.now() + lifetime}
    return Response(OneTimeLink(shown).data, status=201)
