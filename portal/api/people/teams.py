"""API of teams and their members: admins change, members read theirs."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.directory import change_team, create_team_by, find_person, find_team, remove_member, set_member
from accounts.models import Membership, Team, TeamRole, User
from accounts.permissions import require
from common.errors import NotFound
from portal.access.admin_lists import list_teams
from portal.access.redacted_rows import team_ids_in_sight
from portal.api.http.bodies import JSON, read_json
from portal.api.http.fields import full_url
from portal.api.http.lists import FieldsQuery, all_of, list_of
from portal.api.view import ApiView, read_query

READ, WRITE = ("cluster:read",), ("people:write",)


class TeamShape(serializers.Serializer):
    """parent: whose limits hold for it, too. gid: group of its files."""

    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    parent = serializers.CharField(source="parent.name", default=None, allow_null=True)  # type: ignore[assignment]
    gid = serializers.IntegerField()
    members = serializers.IntegerField(source="people")
    created_at = serializers.DateTimeField()


class TeamChange(serializers.Serializer):
    """What is left out stays as it is. parent: null removes it."""

    title = serializers.CharField(max_length=100, allow_blank=True, required=False)
    parent = serializers.CharField(max_length=32, allow_null=True, required=False)  # type: ignore[assignment]


class TeamAsk(TeamChange):
    """gid: group of its files; left out, the next free one."""

    name = serializers.CharField(max_length=32)
    gid = serializers.IntegerField(min_value=1000, max_value=2**31 - 1, allow_null=True, default=None)


class MemberShape(serializers.Serializer):
    person = serializers.CharField(source="user.username")
    full_name = serializers.CharField(source="user.full_name", allow_blank=True)
    role = serializers.ChoiceField(TeamRole.choices)


class MemberChange(serializers.Serializer):
    role = serializers.ChoiceField(TeamRole.choices)


class MemberAsk(serializers.Serializer):
    person = serializers.CharField(max_length=32)
    role = serializers.ChoiceField(TeamRole.choices, default=TeamRole.MEMBER)


class TeamList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_teams", "POST": "create_team"}
    refusals = {"POST": ("409",)}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(TeamShape, "TeamList"))
    def get(self, request: Request) -> Response:
        """List one's teams; all for administrators and auditors."""
        return all_of(_teams_in_sight(request.user), TeamShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: TeamAsk}, responses={201: OpenApiResponse(TeamShape)})
    def post(self, request: Request) -> Response:
        """Create a team. It can run nothing before it has a quota in a pool. For administrators."""
        require(request.user, "team.change")
        team = create_team_by(actor=request.user, **_with_parent(read_json(request, TeamAsk)))
        where = {"Location": full_url("api-team", name=team.name)}
        return Response(_show(request.user, team.name), status=201, headers=where)


class TeamDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE}
    operations = {"GET": "get_team", "PATCH": "change_team"}

    @extend_schema(responses=TeamShape)
    def get(self, request: Request, name: str) -> Response:
        return Response(_show(request.user, name))

    @extend_schema(request={JSON: TeamChange}, responses=TeamShape)
    def patch(self, request: Request, name: str) -> Response:
        """For administrators."""
        require(request.user, "team.change")
        change_team(actor=request.user, team=find_team(name), **_with_parent(read_json(request, TeamChange)))
        return Response(_show(request.user, name))


class MemberList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_members", "POST": "add_member"}

    @extend_schema(parameters=[FieldsQuery], responses=list_of(MemberShape, "MemberList"))
    def get(self, request: Request, name: str) -> Response:
        """List the people of one of one's teams; of any for administrators and auditors."""
        members = Membership.objects.filter(team=_find_in_sight(request.user, name)).select_related("user")
        return all_of(members.order_by("user__username"), MemberShape, **read_query(request, FieldsQuery))

    @extend_schema(request={JSON: MemberAsk}, responses={201: OpenApiResponse(MemberShape)})
    def post(self, request: Request, name: str) -> Response:
        """Add a person, or change their role. For administrators."""
        require(request.user, "team.change")
        team, asked = find_team(name), read_json(request, MemberAsk)
        user = find_person(asked["person"], "/person")
        member = set_member(actor=request.user, team=team, user=user, role=asked["role"])
        where = {"Location": full_url("api-member", name=team.name, person=member.user.username)}
        return Response(MemberShape(member).data, status=201, headers=where)


class MemberDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_member", "PATCH": "change_member", "DELETE": "remove_member"}

    @extend_schema(responses=MemberShape)
    def get(self, request: Request, name: str, person: str) -> Response:
        return Response(MemberShape(_find_member(_find_in_sight(request.user, name), person)).data)

    @extend_schema(request={JSON: MemberChange}, responses=MemberShape)
    def patch(self, request: Request, name: str, person: str) -> Response:
        """Change a person's role in a team. For administrators."""
        require(request.user, "team.change")
        member = _find_member(find_team(name), person)
        role = read_json(request, MemberChange)["role"]
        return Response(MemberShape(set_member(actor=request.user, team=member.team, user=member.user, role=role)).data)

    @extend_schema(responses={204: OpenApiResponse(None, "They are no member any more.")})
    def delete(self, request: Request, name: str, person: str) -> Response:
        """Take a person out of a team. What they run in it goes on. For administrators."""
        require(request.user, "team.change")
        member = _find_member(find_team(name), person)
        remove_member(actor=request.user, team=member.team, user=member.user)
        return Response(status=204)


def _teams_in_sight(user: User) -> QuerySet[Team]:
    teams, seen = list_teams(), team_ids_in_sight(user)
    return teams if seen is None else teams.filter(pk__in=seen)


def _find_in_sight(user: User, name: str) -> Team:
    team = _teams_in_sight(user).filter(name=name).first()
    if team is None:
        raise NotFound(kind="team", id=name)
    return team


def _show(user: User, name: str) -> dict[str, Any]:
    return TeamShape(_find_in_sight(user, name)).data


def _find_member(team: Team, person: str) -> Membership:
    member = Membership.objects.filter(team=team, user__username=person).select_related("user", "team").first()
    if member is None:
        raise NotFound(kind="member", id=person)
    return member


def _with_parent(asked: dict[str, Any]) -> dict[str, Any]:
    """Replace the parent's name by its team. Raises InvalidInput."""
    if (name := asked.get("parent")) is not None:
        asked["parent"] = find_team(name, "/parent")
    return asked
