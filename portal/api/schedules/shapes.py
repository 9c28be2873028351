"""Schedules and their runs as JSON, and requests about them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.text import MAX_NAME
from jobs.jobfile.load import MAX_BYTES
from jobs.models import show_job_id
from portal.api.http.fields import Links, full_url, one_of
from portal.schedules.run_words import describe_why
from schedules.cron import LONGEST
from schedules.models import Missed, Outcome, Overlap, Schedule, ScheduledRun, SuspendedWhy
from schedules.services import MOST_KEPT

STATES = ("active", "suspended", "ended")
ZONE_LENGTH = 64


class LastRun(serializers.Serializer):
    """job: null unless it was submitted."""

    tick_at = serializers.DateTimeField()
    outcome = serializers.ChoiceField(Outcome.choices)
    job = serializers.CharField(allow_null=True)


class ScheduleShape(serializers.Serializer):
    """A job file that is submitted for its owner at the times of a cron line, by the clock of `zone`; or, where that is
    empty, a notebook that is started. stop_at: when that stops again by the same clock; null: as its settings say.

    state: ended once no time is left. overlap: what a run does while the job of an earlier one is open. missed: what is
    done for times at which the platform was down. suspended_why: by_hand, or refused: too often in a row. keep: how
    many ended runs are kept.
    """

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    state = serializers.SerializerMethodField()
    job_file = serializers.CharField(allow_blank=True)
    notebook = serializers.SerializerMethodField()
    stop_at = serializers.TimeField(format="%H:%M", allow_null=True)
    cron = serializers.CharField()
    zone = serializers.CharField()
    overlap = serializers.ChoiceField(Overlap.choices)
    missed = serializers.ChoiceField(Missed.choices)
    until = serializers.DateTimeField(allow_null=True)
    keep = serializers.IntegerField()
    next_at = serializers.DateTimeField(allow_null=True)
    suspended_at = serializers.DateTimeField(allow_null=True)
    suspended_why = serializers.ChoiceField(SuspendedWhy.choices, allow_blank=True)
    last_run = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    links = serializers.SerializerMethodField()

    @extend_schema_field(one_of(STATES))
    def get_state(self, row: Schedule) -> str:
        return row.state

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_notebook(self, row: Schedule) -> str | None:
        return f"nb-{row.notebook_id}" if row.notebook_id else None

    @extend_schema_field(LastRun(allow_null=True))
    def get_last_run(self, row: Any) -> dict[str, Any] | None:
        if row.last_tick_at is None:
            return None
        job = show_job_id(row.last_job_id) if row.last_job_id else None
        return dict(LastRun({"tick_at": row.last_tick_at, "outcome": row.last_outcome, "job": job}).data)

    @extend_schema_field(Links)
    def get_links(self, row: Schedule) -> dict[str, str]:
        parts = {"schedule_id": row.public_id}
        return {"self": full_url("api-schedule", **parts), "html": full_url("schedule", **parts)}


class RunShape(serializers.Serializer):
    """One time of a schedule. tick_at: the time of the cron line, or when it was asked for by hand (asked_by).
    missed_since: it stands for all times since then, which were missed. due: it is about to be submitted. code, detail:
    why it was left out or refused; "" if it was not.
    """

    id = serializers.IntegerField(source="pk")
    tick_at = serializers.DateTimeField()
    missed_since = serializers.DateTimeField(allow_null=True)
    asked_by = serializers.CharField(allow_blank=True)
    outcome = serializers.ChoiceField(Outcome.choices)
    job = serializers.SerializerMethodField()
    code = serializers.SerializerMethodField()
    detail = serializers.SerializerMethodField()

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_job(self, run: ScheduledRun) -> str | None:
        return show_job_id(run.job_id) if run.job_id else None

    def get_code(self, run: ScheduledRun) -> str:
        return run.why["code"] if run.why else ""

    def get_detail(self, run: ScheduledRun) -> str:
        return describe_why(run)


class ScheduleChange(serializers.Serializer):
    """What is left out stays as it is. job_file: as YAML, without start_at. notebook: by id or name; it takes the place
    of the job file, and a job file that of a notebook. until: null = no end.
    """

    name = serializers.CharField(max_length=MAX_NAME, required=False)
    job_file = serializers.CharField(max_length=MAX_BYTES, trim_whitespace=False, required=False)
    notebook = serializers.CharField(max_length=MAX_NAME, required=False, allow_null=True)
    stop_at = serializers.TimeField(format="%H:%M", required=False, allow_null=True)
    cron = serializers.CharField(max_length=LONGEST, required=False)
    zone = serializers.CharField(max_length=ZONE_LENGTH, required=False)
    overlap = serializers.ChoiceField(Overlap.choices, required=False)
    missed = serializers.ChoiceField(Missed.choices, required=False)
    until = serializers.DateTimeField(required=False, allow_null=True)
    keep = serializers.IntegerField(min_value=1, max_value=MOST_KEPT, required=False)


class ScheduleAsk(ScheduleChange):
    """Either job_file, as YAML without start_at, or notebook, by id or name. stop_at: of a notebook. cron: five fields,
    such as "30 2 * * 1-5". zone: left out, the caller's. A line with a fixed minute and hour runs by the clock on the
    wall: a time that a change of the clock leaves out runs at the change, one that comes twice the first time.
    """

    name = serializers.CharField(max_length=MAX_NAME)
    cron = serializers.CharField(max_length=LONGEST)
