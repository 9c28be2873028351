"""View models of the numbers that jobs report: of one job, and of several beside one another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.urls import reverse
from django.utils.formats import number_format

from accounts.models import User
from jobs.copying.differences import compare_files
from jobs.models import Job
from reported_numbers.curves import Curve, Value, load_curves, load_untaken
from reported_numbers.untaken_messages import describe_untaken

MOST_CHARTS, MOST_CURVES = 24, 240
MOST_ROWS = 500
MOST_COMPARED = 6
LONGEST = 300


@dataclass(frozen=True)
class NumberRow:
    """A row of the table. who: the job and task, as far as there are several. values: the last, smallest, largest."""

    name: str
    who: str
    values: Sequence["ShownValue"]
    count: int


@dataclass(frozen=True)
class ShownValue:
    words: str
    step: str


@dataclass(frozen=True)
class NumberCharts:
    """What the charts of a page begin with. keep: a name for as long as the drawn charts stay."""

    url: str
    jobs: str
    names: Sequence[str]
    keep: str
    is_live: bool


class Numbers:
    """What jobs report: charts, and a table of the last, smallest and largest."""

    def __init__(self, jobs: Sequence[Job]):
        self.jobs = jobs

    @cached_property
    def curves(self) -> list[Curve]:
        return load_curves(self.jobs)

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(curve.name for curve in self.curves))

    @property
    def most_charts(self) -> int:
        """How many names have a chart: fewer where each has many curves."""
        curves_of_one = max(Counter(curve.name for curve in self.curves).values(), default=1)
        return max(min(MOST_CHARTS, MOST_CURVES // curves_of_one), 1)

    @property
    def is_cut(self) -> bool:
        """Whether there are more names than charts, or more curves than rows."""
        return len(self.names) > self.most_charts or len(self.curves) > MOST_ROWS

    @property
    def has_several(self) -> bool:
        return any(row.who for row in self.rows)

    @cached_property
    def rows(self) -> list[NumberRow]:
        tasks = {curve.task for curve in self.curves}
        return [build_row(curve, len(self.jobs) > 1, len(tasks) > 1) for curve in self.curves[:MOST_ROWS]]

    @property
    def charts(self) -> NumberCharts:
        first, *others = (job.public_id for job in self.jobs)
        is_live = any(not job.is_final for job in self.jobs)
        return NumberCharts(
            url=reverse("api-job-numbers", args=[first]),
            jobs=",".join(others),
            names=self.names[: self.most_charts],
            keep=f"numbers-{first}-{'live' if is_live else 'ended'}",
            is_live=is_live,
        )


class JobNumbers(Numbers):
    """The Numbers tab of a job's page."""

    def __init__(self, job: Job, user: User):
        super().__init__([job])
        self.job, self.user = job, user

    @cached_property
    def untaken(self) -> list[str]:
        return [describe_untaken(one) for one in load_untaken(self.job)]

    @cached_property
    def comparable(self) -> list[str]:
        """Return ids of jobs to compare it with: its parent, and the newest other of the same name."""
        seen = Job.objects.visible_to(self.user).exclude(pk=self.job.pk)
        found = [seen.filter(pk=self.job.parent_id).first()] if self.job.parent_id else []
        if self.job.name:
            found.append(seen.filter(name=self.job.name, team=self.job.team_id).order_by("-pk").first())
        return list(dict.fromkeys(job.public_id for job in found if job is not None))


@dataclass(frozen=True)
class DifferingField:
    """A field in which the files of compared jobs differ. values: of each job, "" where its file does not say."""

    field: str
    values: Sequence[str]


class Comparison(Numbers):
    """Several jobs, their curves over one another, and what differs in their files."""

    @cached_property
    def differing(self) -> list[DifferingField]:
        first, *others = self.jobs
        found: dict[str, list] = {}
        for place, other in enumerate(others, 1):
            for one in compare_files(first.spec, other.spec):
                values = found.setdefault(one.field, [one.before] * len(self.jobs))
                values[place] = one.after
        return [DifferingField(field, [show_setting(value) for value in values]) for field, values in found.items()]


def build_row(curve: Curve, with_job: bool, with_task: bool) -> NumberRow:
    who = " ".join([curve.job] * with_job + [curve.task] * with_task)
    values = [show_value(value) for value in (curve.last, curve.smallest, curve.largest)]
    return NumberRow(curve.name, who, values, curve.count)


def show_value(value: Value) -> ShownValue:
    """Return a number with six digits, and its step."""
    is_whole = value.step == int(value.step)
    step = number_format(int(value.step), force_grouping=True) if is_whole else f"{value.step:.6g}"
    return ShownValue(f"{value.value:.6g}", step)


def show_setting(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
