"""Read what tasks reported since the last look, and store it.

How far a file is read is stored in the transaction that stores what was read, under a lock of its row. So each number
counts once, whoever looks, and whenever a worker is killed.
"""

import os
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from jobs.models import Task
from jobs.states import TaskState
from reported_numbers.growing import fold_tail, grow_series, has_long_tail
from reported_numbers.lines import Numbers, Refusal, Why, read_lines
from reported_numbers.models import Report, Series
from reported_numbers.windows import Position, choose_window, cut_lines
from runtimes.contract.runtime import Runtime

AT_ONCE = 200
"""Tasks of one transaction."""
MOST_AT_A_LOOK = 4 << 20
"""Bytes of all tasks together; the rest waits for the next look."""
GROWN = ["count", "last", "last_step", "last_at", "smallest", "smallest_step", "largest", "largest_step", "tail"]
FOLDED = [*GROWN, "points", "width"]
READ = ["offset", "in_line", "skipped", "refused", "first_why", "first_what"]


@dataclass(frozen=True)
class OpenFile:
    fd: int
    size: int


def collect_running(runtime: Runtime) -> None:
    """Store what running tasks have reported by now. Raises Unavailable."""
    running = Task.objects.filter(state__in=[TaskState.RUNNING, TaskState.STOPPING])
    tasks = [(pk, uuid.hex) for pk, uuid in running.values_list("pk", "uuid")]
    random.shuffle(tasks)  # whoever writes most is not always before the same others
    budget = MOST_AT_A_LOOK
    for begin in range(0, len(tasks), AT_ONCE):
        budget -= _collect(dict(tasks[begin : begin + AT_ONCE]), runtime, budget)


def collect_ended(uuids: Iterable[str], runtime: Runtime) -> None:
    """Store the rest of what ended tasks have reported, also a last line without an end. Raises Unavailable."""
    for uuid in uuids:
        if (fd := runtime.open_report(uuid)) is None:
            continue
        try:
            size = os.fstat(fd).st_size
            pk = Task.objects.filter(uuid=uuid).values_list("pk", flat=True).first() if size else None
            if pk is not None:
                _store({pk: OpenFile(fd, size)}, is_last=True)
        finally:
            os.close(fd)


def _collect(tasks: Mapping[int, str], runtime: Runtime, budget: int) -> int:
    """Store what is new of these tasks, within about so many bytes; return how many were read."""
    files: dict[int, OpenFile] = {}
    positions = _load_positions(tasks)
    try:
        for pk, uuid in tasks.items():
            if budget <= 0 or (fd := runtime.open_report(uuid)) is None:
                continue
            size = os.fstat(fd).st_size
            if window := choose_window(size, positions.get(pk, Position()), is_last=False):
                files[pk] = OpenFile(fd, size)
                budget -= window.length
            else:
                os.close(fd)
        return _store(files, is_last=False) if files else 0
    finally:
        for file in files.values():
            os.close(file.fd)


def _load_positions(tasks: Iterable[int]) -> dict[int, Position]:
    rows = Report.objects.filter(task__in=tasks).values_list("task_id", "offset", "in_line")
    return {pk: Position(offset, in_line) for pk, offset, in_line in rows}


def _store(files: Mapping[int, OpenFile], *, is_last: bool) -> int:
    """Read what is new of these files and store it; return how many bytes were read."""
    with transaction.atomic():
        Report.objects.bulk_create([Report(task_id=pk) for pk in sorted(files)], ignore_conflicts=True)
        reports = list(Report.objects.select_for_update().filter(task__in=files).order_by("task"))
        known: defaultdict[int, dict[str, Series]] = defaultdict(dict)
        for series in Series.objects.filter(task__in=files).defer("points"):
            known[series.task_id][series.name] = series
        bytes_read, grown, now = 0, [], timezone.now()
        for report in reports:
            numbers, read = _read(files[report.task_id], report, known[report.task_id], is_last=is_last)
            bytes_read += read
            for name, told in numbers.values.items():
                series = known[report.task_id].get(name) or Series(task_id=report.task_id, name=name)
                grow_series(series, told, now)
                grown.append(series)
        Report.objects.bulk_create(reports, update_conflicts=True, unique_fields=["task"], update_fields=READ)
        _write(grown)
    return bytes_read


def _read(file: OpenFile, report: Report, known: Iterable[str], *, is_last: bool) -> tuple[Numbers, int]:
    """Read what is new of a file, and move its row on. Return it, and how many bytes were read."""
    window = choose_window(file.size, Position(report.offset, report.in_line), is_last=is_last)
    if window is None:
        return Numbers(), 0
    content = os.pread(file.fd, window.length, window.offset)
    lines, position, is_long = cut_lines(content, window, is_last=is_last)
    numbers = read_lines(lines, set(known))
    if is_long:
        numbers.refuse(Why.LONG_LINE, content[:100].decode(errors="replace"))
    report.offset, report.in_line = position.offset, position.in_line
    report.skipped += position.skipped
    report.refused += numbers.refused
    if numbers.first and not report.first_why:
        _record_refusal(report, numbers.first)
    return numbers, len(content)


def _record_refusal(report: Report, first: Refusal) -> None:
    report.first_why, report.first_what = first.why, first.what


def _write(grown: Iterable[Series]) -> None:
    """Write series; only those whose tail has become long with their points."""
    short: list[Series] = []
    long: list[Series] = []
    for series in grown:
        (long if has_long_tail(series) else short).append(series)
        series.points = b""  # of a short tail not written, and of a long one read now
    points = dict(Series.objects.filter(pk__in=[one.pk for one in long if one.pk]).values_list("pk", "points"))
    for series in long:
        series.points = points.get(series.pk, b"")
        fold_tail(series)
    for some, fields in ((short, GROWN), (long, FOLDED)):
        Series.objects.bulk_create(
            some, update_conflicts=True, unique_fields=["task", "name"], update_fields=fields, batch_size=500
        )
