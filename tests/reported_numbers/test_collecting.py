"""Collecting from files: nothing lost, nothing twice, whoever dies when."""

import os
import signal
from pathlib import Path

import pytest
from django.db import connection

from jobs.models import Task
from reported_numbers import collecting
from reported_numbers.collecting import collect_ended, collect_running
from reported_numbers.growing import read_points
from reported_numbers.models import Report, Series
from reported_numbers.thinning import STEP, VALUE
from reported_numbers.windows import MOST_BEHIND
from runtimes.contract.errors import Unavailable
from runtimes.report_file import open_report_file
from tests import make

pytestmark = pytest.mark.django_db


class Files:
    """As far as collecting sees a runtime."""

    def __init__(self, folder: Path):
        self.folder, self.away = folder, False

    def open_report(self, uuid: str) -> int | None:
        if self.away:
            raise Unavailable("no answer")
        return open_report_file(self.folder, uuid)

    def add(self, task: Task, text: str) -> None:
        with open(self.folder / task.uuid.hex, "a") as file:
            file.write(text)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def task():
    return running_tasks(1)[0]


def running_tasks(count: int) -> list[Task]:
    cast = make.cast()
    job = make.job(cast.ada, gpu="0")
    make.start(job)
    first = job.tasks.get()
    Task.objects.bulk_create(
        Task(job=job, role="more", rank=rank, state="RUNNING", node=first.node) for rank in range(count - 1)
    )
    Task.objects.filter(job=job).update(state="RUNNING")
    return list(job.tasks.order_by("pk"))


def values_of(task: Task, name: str = "loss") -> list[float]:
    return read_points(Series.objects.get(task=task, name=name))[:, VALUE].tolist()


def test_numbers_are_kept_with_their_last_smallest_and_largest(files, task):
    files.add(task, '{"loss": 0.9, "step": 10}\n{"loss": 0.2, "step": 20}\n{"loss": 0.4, "step": 30}\n')
    collect_running(files)
    series = Series.objects.get(task=task)
    assert (series.count, series.last, series.last_step) == (3, 0.4, 30)
    assert (series.smallest, series.smallest_step, series.largest, series.largest_step) == (0.2, 20, 0.9, 10)
    files.add(task, '{"loss": 0.1}\n')
    collect_running(files)
    series.refresh_from_db()
    assert (series.count, series.last, series.last_step, series.smallest) == (4, 0.1, 4, 0.1)
    assert read_points(series)[:, STEP].tolist() == [10, 20, 30, 4]


def test_the_same_file_is_stored_once(files, task):
    files.add(task, '{"loss": 1}\n{"loss": 2}\n{"lo')
    for _ in range(3):
        collect_running(files)
    assert values_of(task) == [1, 2]
    files.add(task, 'ss": 3}\n{"loss": 4}')
    collect_running(files)
    assert values_of(task) == [1, 2, 3]
    for _ in range(2):
        collect_ended([task.uuid.hex], files)
    assert values_of(task) == [1, 2, 3, 4]


def test_a_look_that_fails_midway_stores_nothing_and_the_next_stores_all(files, task, monkeypatch):
    files.add(task, '{"loss": 1}\n')
    monkeypatch.setattr(collecting, "_write", lambda grown: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        collect_running(files)
    assert not Report.objects.exists()
    monkeypatch.undo()
    collect_running(files)
    assert values_of(task) == [1]


def test_many_numbers_become_a_bounded_curve_that_keeps_its_peaks(files, task):
    for begin in range(0, 6000, 500):
        files.add(task, "".join(f'{{"loss": {-50 if i == 3210 else i % 7}}}\n' for i in range(begin, begin + 500)))
        collect_running(files)
    series = Series.objects.get(task=task)
    assert (series.count, series.smallest, series.smallest_step, series.last_step) == (6000, -50, 3211, 6000)
    assert len(read_points(series)) <= 1000 and -50 in values_of(task)
    assert read_points(series)[[0, -1], STEP].tolist() == [1, 6000]


def test_what_is_refused_is_counted_and_its_first_reason_kept(files, task):
    files.add(task, '{"loss": NaN}\nEpoch 3\n{"loss": 1}\n')
    collect_running(files)
    files.add(task, '{"2": 1}\n')
    collect_running(files)
    report = Report.objects.get(task=task)
    assert (report.refused, report.first_why, report.first_what) == (3, "not_finite", "loss")
    assert values_of(task) == [1]


def test_of_a_huge_file_only_the_end_is_read(files, task):
    with open(files.folder / task.uuid.hex, "wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"loss": 7}\n')
    for _ in range(9):
        collect_running(files)
    assert values_of(task) == [7]
    report = Report.objects.get(task=task)
    assert report.offset == (1 << 30) + 13 and report.skipped > (1 << 30) - MOST_BEHIND


def test_a_file_that_is_written_anew_is_read_anew(files, task):
    files.add(task, '{"loss": 1}\n{"loss": 2}\n')
    collect_running(files)
    (files.folder / task.uuid.hex).write_text('{"loss": 3}\n')
    collect_running(files)
    assert values_of(task) == [1, 2, 3]


def test_what_is_no_file_is_not_opened(files, task):
    secret = files.folder / "secret"
    secret.write_text('{"loss": 1}\n')
    place = files.folder / task.uuid.hex
    os.mkfifo(place)
    collect_running(files)
    place.unlink()
    place.symlink_to("/etc/passwd")
    collect_running(files)
    collect_ended([task.uuid.hex], files)
    assert not Report.objects.exists()


def test_many_tasks_cost_few_queries(files, django_assert_max_num_queries):
    tasks = running_tasks(150)
    for task in tasks:
        files.add(task, '{"loss": 1, "acc": 2}\n')
    with django_assert_max_num_queries(10):
        collect_running(files)
    assert Series.objects.count() == 300
    with django_assert_max_num_queries(2):  # nothing new
        collect_running(files)


def test_an_engine_that_is_away_loses_nothing(files, task):
    files.add(task, '{"loss": 1}\n')
    files.away = True
    with pytest.raises(Unavailable):
        collect_running(files)
    files.away = False
    collect_running(files)
    assert values_of(task) == [1]


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_between_reading_and_storing_neither_loses_nor_doubles(files, task):
    files.add(task, '{"loss": 1}\n{"loss": 2}\n')
    for point in ("read", "written"):
        connection.close()
        if (child := os.fork()) == 0:
            die_at(point, files)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        files.add(task, '{"loss": 3}\n')
    collect_running(files)
    assert values_of(task) == [1, 2, 3, 3]


def die_at(point: str, files: Files) -> None:
    """Be killed within the look of a process of its own."""
    real = collecting._write

    def write(grown) -> None:
        if point == "written":
            real(grown)
        os.kill(os.getpid(), signal.SIGKILL)

    collecting._write = write
    try:
        collect_running(files)
    finally:
        os._exit(1)


def test_numbers_go_with_their_job(files, task):
    files.add(task, '{"loss": 1}\n')
    collect_running(files)
    Task.objects.filter(pk=task.pk).delete()
    assert not Report.objects.exists() and not Series.objects.exists()
