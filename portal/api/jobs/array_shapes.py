"""Arrays of jobs as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.locks import database_now
from jobs.arrays.estimate import estimate_end
from jobs.arrays.models import JobArray
from jobs.jobfile.search.wish import MODES
from jobs.jobfile.spec import read_search
from portal.api.http.fields import JobStateField, full_url, moment
from portal.wording.errors import describe_stored_refusal
from sweeps.trials import load_trials, rank_trials

MOST_TRIALS = 100


class ElementCountsShape(serializers.Serializer):
    """Elements by state, of those that have been made; trials that a sweep stopped early are among the succeeded."""

    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class ArrayLinks(serializers.Serializer):
    """elements: the list of its jobs."""

    self = serializers.URLField()
    html = serializers.URLField()
    elements = serializers.URLField()


class ArrayShape(serializers.Serializer):
    """Alike jobs of one file with `array` or `search`: its elements, from 0 to total - 1. at_once: the most that are
    open together. made: how many there are yet; the others follow as there is room. state: what they come to together.

    code, detail: what refuses the next element now, "" if nothing does. halted_at: since when it is not tried again.
    """

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    state = JobStateField()
    total = serializers.IntegerField()
    at_once = serializers.IntegerField()
    made = serializers.IntegerField()
    elements = ElementCountsShape(source="counts")
    spec = serializers.DictField()
    submitted_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    stop_requested_at = serializers.DateTimeField(allow_null=True)
    halted_at = serializers.DateTimeField(allow_null=True)
    code = serializers.SerializerMethodField()
    detail = serializers.SerializerMethodField()
    links = serializers.SerializerMethodField()

    def get_code(self, array: JobArray) -> str:
        return array.why["code"] if array.why else ""

    def get_detail(self, array: JobArray) -> str:
        return describe_stored_refusal(array.why) if array.why else ""

    @extend_schema_field(ArrayLinks)
    def get_links(self, array: JobArray) -> dict[str, str]:
        return {
            "self": full_url("api-array", array_id=array.public_id),
            "html": full_url("array", array_id=array.public_id),
            "elements": f"{full_url('api-jobs')}?array={array.public_id}",
        }


class TrialShape(serializers.Serializer):
    """A trial of a sweep. index: of its element. values: by variable. score: the best of the metric that it reported.
    is_pruned: whether it was stopped early.
    """

    index = serializers.IntegerField()
    job = serializers.CharField()
    state = JobStateField()
    is_pruned = serializers.BooleanField()
    values = serializers.DictField(child=serializers.CharField())
    score = serializers.FloatField()


class SweepShape(serializers.Serializer):
    """What a sweep has found. best: null while no trial has reported the metric. trials: that have, the best first, of
    many the first 100.
    """

    metric = serializers.CharField()
    mode = serializers.ChoiceField(MODES)
    best = TrialShape(allow_null=True)
    trials = TrialShape(many=True)


class ArrayDetailShape(ArrayShape):
    """expected_end_at: when the last element ends if all go on as now; null: nothing runs, or no length is known.
    sweep: null of an array without `search`.
    """

    expected_end_at = serializers.SerializerMethodField()
    sweep = serializers.SerializerMethodField()

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_expected_end_at(self, array: JobArray) -> str | None:
        return moment(estimate_end(array, database_now()))

    @extend_schema_field(SweepShape(allow_null=True))
    def get_sweep(self, array: JobArray) -> dict[str, Any] | None:
        if "search" not in array.spec:
            return None
        wish = read_search(array.spec["search"])
        ranked = rank_trials(load_trials(array, wish), wish)[:MOST_TRIALS]
        found = {"metric": wish.metric, "mode": wish.mode, "best": ranked[0] if ranked else None, "trials": ranked}
        return dict(SweepShape(found).data)


def show_array(array: JobArray) -> dict[str, Any]:
    return dict(ArrayDetailShape(array).data)
