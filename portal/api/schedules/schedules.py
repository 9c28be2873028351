"""API of schedules and their runs."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.time_zones import zone_of
from portal.api.http.bodies import JSON, read_json
from portal.api.http.headers import KEY, read_once
from portal.api.http.lists import PageQuery, SortField, list_of, page, read_moment, read_name
from portal.api.schedules.shapes import RunShape, ScheduleAsk, ScheduleChange, ScheduleShape
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers
from schedules.firing import fire_next
from schedules.models import Schedule
from schedules.services import (
    ask_for_run,
    change_schedule,
    create_schedule,
    delete_schedule,
    find_schedule,
    resume_schedule,
    suspend_schedule,
)

READ, WRITE = ("jobs:read",), ("jobs:write",)


class SchedulesQuery(PageQuery):
    """q: part of the name. team: by name. owner: a name, or "me"."""

    team = serializers.CharField(max_length=64, required=False)
    owner = serializers.CharField(max_length=64, required=False)
    q = serializers.CharField(max_length=100, required=False)
    sort = SortField({"name": read_name, "created_at": read_moment})


class Schedules(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_schedules", "POST": "create_schedule"}
    refusals = {"POST": ("409", "422", "507")}
    rates = {"POST": ("submits",)}

    @extend_schema(parameters=[SchedulesQuery], responses=list_of(ScheduleShape, "SchedulePage"))
    def get(self, request: Request) -> Response:
        """List the schedules of one's teams, newest first."""
        query = read_query(request, SchedulesQuery)
        if query.get("owner") == "me":
            query["owner"] = request.user.username
        rows = Schedule.objects.visible_to(request.user).with_names().with_last_run()
        named = {"team": "team__name__iexact", "owner": "user__username__iexact", "q": "name__icontains"}
        wanted = {column: query[name] for name, column in named.items() if name in query}
        return page(rows.filter(**wanted), query, ScheduleShape)

    @extend_schema(
        parameters=[KEY],
        request={JSON: ScheduleAsk},
        responses={201: OpenApiResponse(ScheduleShape, "The schedule, and its address in Location.")},
    )
    def post(self, request: Request) -> Response:
        """Create a schedule, unless its job could never run now. Its name is unique among one's own."""
        said = read_json(request, ScheduleAsk)
        once = read_once(request, {name: str(value) for name, value in said.items()})
        values = {"zone": zone_of(request.user).key, **said}
        made = create_schedule(user=request.user, **_abilities(), **once, **values)
        shown = ScheduleShape(find_schedule(request.user, made.public_id)).data
        return Response(shown, status=201, headers={"Location": shown["links"]["self"]})


class ScheduleDetail(ApiView):
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_schedule", "PATCH": "change_schedule", "DELETE": "delete_schedule"}
    refusals = {"PATCH": ("409", "422"), "DELETE": ("409",)}
    rates = {"PATCH": ("submits",)}

    @extend_schema(responses=ScheduleShape)
    def get(self, request: Request, schedule_id: str) -> Response:
        """Show a schedule."""
        return _show(request, schedule_id)

    @extend_schema(request={JSON: ScheduleChange}, responses=ScheduleShape)
    def patch(self, request: Request, schedule_id: str) -> Response:
        """Change a schedule of one's own, for the runs that come."""
        row, said = find_schedule(request.user, schedule_id), read_json(request, ScheduleChange)
        change_schedule(actor=request.user, schedule=row, **_abilities(), **said)
        return _show(request, schedule_id)

    @extend_schema(responses={204: OpenApiResponse(None, "It is gone, with the list of its runs. Its jobs stay.")})
    def delete(self, request: Request, schedule_id: str) -> Response:
        """Delete a schedule, as its owner, a lead or an admin. Jobs that it has submitted go on."""
        delete_schedule(actor=request.user, schedule=find_schedule(request.user, schedule_id))
        return Response(status=204)


class ScheduleSuspend(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "suspend_schedule"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ScheduleShape)
    def post(self, request: Request, schedule_id: str) -> Response:
        """Let nothing run of it until it is resumed, as its owner, a lead or an admin."""
        suspend_schedule(actor=request.user, schedule=find_schedule(request.user, schedule_id))
        return _show(request, schedule_id)


class ScheduleResume(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "resume_schedule"}
    refusals = {"POST": ("409",)}

    @extend_schema(request=None, responses=ScheduleShape)
    def post(self, request: Request, schedule_id: str) -> Response:
        """Let it go on with its next time. Those that passed meanwhile were not missed."""
        resume_schedule(actor=request.user, schedule=find_schedule(request.user, schedule_id))
        return _show(request, schedule_id)


class ScheduleRun(ApiView):
    scopes = {"POST": WRITE}
    operations = {"POST": "run_schedule"}
    refusals = {"POST": ("409",)}
    rates = {"POST": ("submits",)}

    @extend_schema(parameters=[KEY], request=None, responses={201: OpenApiResponse(RunShape)})
    def post(self, request: Request, schedule_id: str) -> Response:
        """Submit the job of a schedule of one's own now, besides its times. `outcome` says what came of it."""
        row = find_schedule(request.user, schedule_id)
        run = ask_for_run(actor=request.user, schedule=row, **read_once(request, {}))
        fire_next(pk=run.pk, **_abilities())
        run.refresh_from_db()
        return Response(RunShape(run).data, status=201)


class ScheduleRuns(ApiView):
    scopes = {"GET": READ}
    operations = {"GET": "list_schedule_runs"}

    @extend_schema(parameters=[PageQuery], responses=list_of(RunShape, "ScheduledRunPage"))
    def get(self, request: Request, schedule_id: str) -> Response:
        """List what came of each time, newest first."""
        runs = find_schedule(request.user, schedule_id).runs.all()
        return page(runs, read_query(request, PageQuery), RunShape)


def _show(request: Request, schedule_id: str) -> Response:
    return Response(ScheduleShape(find_schedule(request.user, schedule_id)).data)


def _abilities() -> dict[str, Any]:
    """Return what jobs.submit must know of the cluster."""
    return {"check": check_possible, "containers": runtime_has_containers()}
