"""Samples that are due for a series engine."""

from datetime import timedelta

from django.utils import timezone

from monitoring.models import RemoteWrite, Sample
from monitoring.series.keys import Kind
from monitoring.series.store import keep_samples
from tests import make

S = timedelta(seconds=1)


def keep(subject: int, *ages_s: float, kind: Kind = Kind.CARD, values=(5000, 1024, None, 250)) -> None:
    now = timezone.now()
    keep_samples(
        [
            Sample(kind=kind, subject=subject, at=now - age * S, span_ms=10_000, source="measured", values=list(values))
            for age in ages_s
        ]
    )


def card(node: str = "n1") -> int:
    pool = make.pool(f"pool-{node}")
    return make.gpu(make.node(node, pool=pool), pool=pool).pk


def stand_at(age_s: float) -> None:
    """Everything older was sent."""
    RemoteWrite.objects.update_or_create(pk=1, defaults={"until": timezone.now() - age_s * S})
