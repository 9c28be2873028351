"""How long jobs are taken to last: as predicted from those that ended, else as their persons said.

TESSERA_PREDICT_LENGTHS=0 turns predictions off. A task learns the model now and then; each process reads it once.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf, isfinite
from typing import Protocol

from django.conf import settings

from common.steady_clock import steady_now
from jobs.models import Job, JobKind
from scheduler.core.prediction.job_traits import JobTraits
from scheduler.core.prediction.length_model import LengthModel, PredictedLength, learn_lengths, load_model
from scheduler.loading.expected_length import load_expected_length
from scheduler.loading.past_jobs import list_past_jobs, load_past_jobs, load_traits
from scheduler.loading.row_cache import memo_for
from scheduler.models import LearnedLengths

MOST_KNOWN = 100_000
"""Jobs of which a process keeps what is known; those that are gone are forgotten with all others."""


class Timed(Protocol):
    """Job fields for run time."""

    @property
    def kind(self) -> str: ...
    @property
    def pool_id(self) -> int: ...
    @property
    def time_s(self) -> int | None: ...
    @property
    def max_time_s(self) -> int | None: ...


class JobLengths:
    """Predicts how long jobs last. version: when it was learned; 0 is never, then it is what was said."""

    def __init__(self, version: float = 0.0, model: LengthModel | None = None):
        self.version = version
        self.model = model or LengthModel()
        self._traits: dict[int, tuple[int, JobTraits]] = memo_for("traits")
        """{job id: (revision, traits)}."""
        self._predicted: dict[tuple[JobTraits, float], PredictedLength] = memo_for("predicted", version)

    def read(self, revisions: Mapping[int, int | None]) -> None:
        """Load what is known of jobs that will be asked about. revisions: {job id: its revision, None for any}."""
        if not self.version:
            return
        known = self._traits
        new = [pk for pk, number in revisions.items() if pk not in known or number not in (None, known[pk][0])]
        if new:
            if len(known) > MOST_KNOWN:
                known.clear()
            known.update(load_traits(new))

    def predict(self, job: Timed, number: int, elapsed_s: float = 0.0) -> PredictedLength:
        """Predict the length of a job that was read. elapsed_s: for which it has run already."""
        if number not in self._traits:
            self.read({number: None})
        known = self._traits.get(number)
        return self.predict_by(job, known[1] if known else None, elapsed_s)

    def predict_by(self, job: Timed, traits: JobTraits | None, elapsed_s: float = 0.0) -> PredictedLength:
        limit_s = get_max_time_s(job)
        if not self.version or traits is None or job.kind != JobKind.BATCH:
            return PredictedLength(min(float(job.time_s or inf), limit_s))
        traits = traits._replace(pool=job.pool_id)
        if elapsed_s:
            return self.model.predict(traits, limit_s=limit_s, elapsed_s=elapsed_s)
        found = self._predicted.get((traits, limit_s))
        if found is None:
            found = self._predicted[traits, limit_s] = self.model.predict(traits, limit_s=limit_s)
        return found


_newest: tuple[float, LengthModel] = (0.0, LengthModel())
"""What this process has read: version and model."""


def load_lengths() -> JobLengths:
    """Load what was learned, if predictions are on and anything was."""
    global _newest
    learned_at = LearnedLengths.objects.values_list("learned_at", flat=True).first() if is_predicting() else None
    if learned_at is None:
        return JobLengths()
    if _newest[0] != learned_at.timestamp():
        row = LearnedLengths.objects.get()
        _newest = row.learned_at.timestamp(), load_model(row.model)
    return JobLengths(*_newest)


def is_predicting() -> bool:
    return settings.TESSERA_PREDICT_LENGTHS


def predict_jobs(jobs: Iterable[Job], now: datetime | None = None) -> dict[int, PredictedLength]:
    """Return {job id: the length that it is taken to have}. now: for those that run, given how long they have."""
    lengths, rows = load_lengths(), list(jobs)
    lengths.read({job.pk: job.revision for job in rows})
    ran_s = {job.pk: max((now - job.started_at).total_seconds(), 0.0) for job in rows if now and job.started_at}
    return {job.pk: lengths.predict(job, job.pk, ran_s.get(job.pk, 0.0)) for job in rows}


def load_cautious_lengths(jobs: Iterable[Job]) -> dict[int, float]:
    """Return {job id: as `WaitingJob.cautious_s`}."""
    found = predict_jobs(jobs).items()
    return {pk: length.latest_s if isfinite(length.latest_s) else length.expected_s for pk, length in found}


def load_stays(jobs: Iterable[Job]) -> dict[int, float]:
    """Return {job id: as `load_cautious_lengths`, or as jobs of its pool last, if nothing is known of it}."""
    rows = list(jobs)
    found = load_cautious_lengths(rows)
    return {job.pk: s if isfinite(s := found[job.pk]) else load_expected_length(job.pool_id) for job in rows}


def learn_from_past() -> None:
    """Learn anew from the newest past jobs, unless none ended since."""
    newest = list_past_jobs().order_by("-pk").values_list("pk", flat=True).first() if is_predicting() else None
    if newest is None:
        return
    last, ended = LearnedLengths.objects.defer("model").first(), list_past_jobs().count()
    if last and (last.ended, last.newest) == (ended, newest):
        return
    columns = {"newest": newest, "ended": ended, "model": learn_lengths(load_past_jobs()).dump()}
    LearnedLengths.objects.update_or_create(pk=1, defaults={"learned_at": steady_now(), **columns})


def get_max_time_s(job: Timed) -> float:
    """Return the time limit in seconds; notebooks enforce `time`."""
    return float((job.time_s if job.kind == JobKind.INTERACTIVE else job.max_time_s) or inf)
