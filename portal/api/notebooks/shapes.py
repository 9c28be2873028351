"""Notebooks as JSON, and requests about them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from notebooks.models import Notebook
from notebooks.start_phases import load_start_phases
from notebooks.states import NotebookState
from portal.api.http.fields import one_of
from secret_store.names import WORDS as SECRET_WORDS


class PhaseShape(serializers.Serializer):
    """A phase of the newest start: queue, place, container, jupyter. took_s: once over; usual_s: where known."""

    name = serializers.CharField()
    began_at = serializers.DateTimeField(allow_null=True)
    took_s = serializers.FloatField(allow_null=True)
    usual_s = serializers.FloatField(allow_null=True)


class NotebookShape(serializers.Serializer):
    """A notebook. job: its newest start. spec: of the next start. stops_at: null = never."""

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    owner = serializers.CharField(source="user.username")
    state = serializers.SerializerMethodField()
    job = serializers.SerializerMethodField()
    spec = serializers.DictField()
    folder = serializers.CharField()
    ready_at = serializers.DateTimeField(allow_null=True)
    opened_at = serializers.DateTimeField(allow_null=True)
    stops_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()

    @extend_schema_field(one_of(state.lower() for state in NotebookState.values))
    def get_state(self, notebook: Notebook) -> str:
        return notebook.state.lower()

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_job(self, notebook: Notebook) -> str | None:
        return notebook.job.public_id if notebook.job else None


class NotebookWhole(NotebookShape):
    """One notebook, with the phases of its newest start."""

    phases = serializers.SerializerMethodField()

    @extend_schema_field(PhaseShape(many=True))
    def get_phases(self, notebook: Notebook) -> Any:
        return PhaseShape(load_start_phases(notebook), many=True).data


class Settings(serializers.Serializer):
    """gpu, secrets, environment: as in a job file; without an environment it keeps packages of its own. hours: of each
    start, null = as the limit allows.
    """

    gpu = serializers.CharField(max_length=100, required=False)
    cpu_milli = serializers.IntegerField(min_value=1, max_value=10**7, required=False, allow_null=True)
    memory_mib = serializers.IntegerField(min_value=1, max_value=10**8, required=False, allow_null=True)
    pool = serializers.CharField(max_length=64, required=False, allow_null=True)
    env = serializers.DictField(required=False)
    secrets = serializers.DictField(child=serializers.ChoiceField(SECRET_WORDS), required=False)
    data = serializers.DictField(required=False)  # type: ignore[assignment]
    environment = serializers.CharField(max_length=200, required=False, allow_null=True)
    hours = serializers.IntegerField(min_value=1, max_value=10_000, required=False, allow_null=True)


class NewNotebook(Settings):
    """start: start it, too; where that is refused, none is made. While JupyterLab is being installed, none starts."""

    name = serializers.CharField(max_length=100)
    gpu = serializers.CharField(max_length=100, default="0")
    team = serializers.CharField(max_length=64, required=False)
    start = serializers.BooleanField(default=False)


class Changes(Settings):
    """name: counts at once, also for SSH; the folder stays. The rest counts from the next start."""

    name = serializers.CharField(max_length=100, required=False)


class Start(serializers.Serializer):
    """gpu: for this start only."""

    gpu = serializers.CharField(max_length=100, required=False)


class Name(serializers.Serializer):
    name = serializers.CharField(max_length=100)


class Hours(serializers.Serializer):
    hours = serializers.IntegerField(min_value=1, max_value=10_000)


class Farewell(serializers.Serializer):
    """confirm: the notebook's name. with_files: also delete its folder."""

    confirm = serializers.CharField(max_length=100)
    with_files = serializers.BooleanField(default=False)
