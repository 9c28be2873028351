"""API of how well a job used what it held."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.resources import show_cpu, show_memory
from jobs.models import Job
from monitoring.usage.at_once import judge_job
from monitoring.usage.efficiency import RULES
from monitoring.usage.figures import load_job_use
from monitoring.usage.job_use import JobUse
from monitoring.usage.verdict import Verdict
from portal.api.http.fields import Amount, amount
from portal.api.jobs.jobs import find_job
from portal.api.monitoring.usage import GpuHours
from portal.api.view import ApiView
from portal.wording.efficiency import describe_advice, describe_verdict, write_advice

NOTHING = JobUse((), (), 0)


class AdviceShape(serializers.Serializer):
    """What to ask for instead: a key of the job file with its value, and a sentence."""

    field = serializers.ChoiceField(choices=["gpu", "cpu", "memory", "time"])
    value = serializers.CharField()
    text = serializers.CharField()


class VerdictShape(serializers.Serializer):
    """gpu_hours: what it cost."""

    code = serializers.ChoiceField(choices=[*RULES, "good", "unknown", "too_short"])
    text = serializers.CharField()
    gpu_hours = serializers.FloatField()
    advice = AdviceShape(allow_null=True)


class EfficiencyShape(serializers.Serializer):
    """Of the newest attempt that held anything, so far while it runs. Null is what is not known.

    verdicts: the costliest first; one of good, unknown and too_short if there is nothing else to say. Below 80 %
    coverage there is neither verdict nor advice. gpu_busy_percent: of its shares of cards.
    """

    job = serializers.CharField()
    running = serializers.BooleanField()
    coverage_percent = serializers.FloatField(allow_null=True)
    simulated = serializers.BooleanField()
    verdicts = VerdictShape(many=True)
    gpu_busy_percent = serializers.FloatField(allow_null=True)
    gpu_memory_peak = Amount()
    gpu_memory = Amount()
    cpu_percent = serializers.FloatField(allow_null=True)
    cpu = Amount()
    memory_peak = Amount()
    memory = Amount()
    ran_s = serializers.IntegerField()
    max_time_s = serializers.IntegerField(allow_null=True)
    idle_tail_s = serializers.IntegerField()
    gpu_hours = GpuHours()


class JobEfficiency(ApiView):
    scopes = {"GET": ("jobs:read",)}
    operations = {"GET": "get_efficiency"}

    @extend_schema(responses=EfficiencyShape)
    def get(self, request: Request, job_id: str) -> Response:
        """Show how well a job uses what it holds, or used what it held, and what to ask for instead."""
        job = find_job(request, job_id)
        return Response(show_efficiency(job, load_job_use(job) or NOTHING))


def show_efficiency(job: Job, use: JobUse) -> dict[str, Any]:
    running = not job.is_final
    gpu_peak, gpu_held = use.gpu_memory or (None, None)
    peak, held = use.memory or (None, None)
    cpu = sum(host.cpu_milli for host in use.hosts) or None
    return {
        "job": job.public_id,
        "running": running,
        "coverage_percent": _round(use.coverage_percent),
        "simulated": any(card.source == "simulated" for card in use.cards),
        "verdicts": [show_verdict(verdict, running=running) for verdict in judge_job(job, use)],
        "gpu_busy_percent": _round(use.busy_percent),
        "gpu_memory_peak": amount(gpu_peak, show_memory),
        "gpu_memory": amount(gpu_held, show_memory),
        "cpu_percent": _round(use.cpu_percent),
        "cpu": amount(cpu, show_cpu),
        "memory_peak": amount(peak, show_memory),
        "memory": amount(held, show_memory),
        "ran_s": use.ran_ms // 1000,
        "max_time_s": use.max_time_s,
        "idle_tail_s": use.tail_ms // 1000,
        "gpu_hours": show_hours(use),
    }


def show_verdict(verdict: Verdict, *, running: bool) -> dict[str, Any]:
    advice = verdict.advice and {
        "field": verdict.advice.field,
        "value": write_advice(verdict.advice),
        "text": describe_advice(verdict, running=running),
    }
    text = describe_verdict(verdict, running=running)
    return {"code": verdict.code, "text": text, "gpu_hours": round(verdict.gpu_hours, 4), "advice": advice}


def show_hours(use: JobUse) -> dict[str, float]:
    held, seen, active, idle = (use.sum_hours(name) for name in ("held_ms", "seen_ms", "active_ms", "idle_ms"))
    parts = {"held": held, "active": active, "paused": seen - active - idle, "idle": idle, "unknown": held - seen}
    return {name: round(max(hours, 0.0), 4) for name, hours in {**parts, "busy": use.busy_hours}.items()}


def _round(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 1)
