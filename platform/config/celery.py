"""The Celery application and its beat schedule."""

import os
from typing import Any

from celery import Celery, Task
from celery.schedules import schedule
from django.conf import settings
from django.db import connection

from common.steady_clock import unbroken_now
from config.heartbeat import AliveStep, MetricsStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


class LivelyTask(Task):
    """A task that begins on a living connection: Celery would reuse one whose database has crashed meanwhile."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        connection.close_if_unusable_or_obsolete()


app = Celery("tessera", task_cls=LivelyTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal", "scheduler", "monitoring", "files", "images", "datasets", "notebooks"])
app.steps["consumer"].add(AliveStep)
app.steps["worker"].add(MetricsStep)


def build_schedule_entry(
    seconds: float, task: str, *, queue: str = "default", expires: float | None = None
) -> dict[str, Any]:
    """Return an entry of the schedule; its message expires after a period, since the next beat repeats it.

    Periods are measured by the monotonic clock: a clock that is set back by a day does not stop the beat for a day.
    """
    options = {"queue": queue, "expires": seconds if expires is None else expires}
    return {"task": task, "schedule": schedule(seconds, nowfun=unbroken_now), "options": options}


app.conf.beat_schedule = {
    "cycle": build_schedule_entry(1, "scheduler.tasks.cycle", queue="scheduler"),
    "reconcile": build_schedule_entry(1, "scheduler.tasks.reconcile", queue="scheduler"),
    "look at notebooks": build_schedule_entry(1, "notebooks.tasks.look"),
    "foretell": build_schedule_entry(15, "scheduler.tasks.foretell"),
    "learn_lengths": build_schedule_entry(600, "scheduler.tasks.learn_lengths"),
    "sweep_environments": build_schedule_entry(3600, "notebooks.tasks.sweep", expires=600),
    "inventory": build_schedule_entry(30, "scheduler.tasks.take_inventory"),
    "suspect": build_schedule_entry(10, "scheduler.tasks.suspect"),
    "measure_places": build_schedule_entry(60, "files.tasks.measure_places"),
    "fetch_images": build_schedule_entry(15, "scheduler.tasks.fetch_images"),
    "refresh_images": build_schedule_entry(120, "images.tasks.refresh", queue="outside"),
    "sweep_uploads": build_schedule_entry(600, "files.tasks.sweep_uploads"),
    "start_dataset_versions": build_schedule_entry(2, "datasets.tasks.start_versions"),
    "sweep_datasets": build_schedule_entry(3600, "datasets.tasks.sweep", expires=600),
    "send": build_schedule_entry(5, "portal.tasks.send", queue="outside"),
    "tell_reports": build_schedule_entry(60, "portal.tasks.tell_reports", queue="outside"),
    "sweep_sent": build_schedule_entry(3600, "portal.tasks.sweep", queue="outside", expires=600),
    "return_quotas": build_schedule_entry(15, "scheduler.tasks.return_quotas"),
    "cancel_late_jobs": build_schedule_entry(15, "scheduler.tasks.cancel_late_jobs"),
    "collect_numbers": build_schedule_entry(4, "scheduler.tasks.collect_numbers"),
    "begin_outputs": build_schedule_entry(5, "scheduler.tasks.begin_outputs"),
    "fire_schedules": build_schedule_entry(10, "scheduler.tasks.fire_schedules"),
    "serve": build_schedule_entry(1, "scheduler.tasks.serve"),
    "make_elements": build_schedule_entry(5, "scheduler.tasks.make_elements"),
    "sweep": build_schedule_entry(600, "scheduler.tasks.sweep"),
    "keep_uses": build_schedule_entry(60, "monitoring.tasks.keep"),
    "pack_samples": build_schedule_entry(20, "monitoring.tasks.pack"),
    "tidy_samples": build_schedule_entry(600, "monitoring.tasks.tidy"),
    "alert": build_schedule_entry(15, "scheduler.tasks.alert"),
    "settle_days": build_schedule_entry(300, "monitoring.tasks.settle"),
    "remind": build_schedule_entry(3600, "monitoring.tasks.remind", expires=600),
    "tally": build_schedule_entry(30, "monitoring.tasks.tally"),
}
if settings.TESSERA_REMOTE_WRITE["url"]:
    app.conf.beat_schedule["send_samples"] = build_schedule_entry(15, "monitoring.tasks.send", queue="outside")
if settings.TESSERA_SAMPLE_S > 0:
    app.conf.beat_schedule["follow_idle"] = build_schedule_entry(20, "scheduler.tasks.follow_idle")
    app.conf.beat_schedule["sample"] = build_schedule_entry(
        min(settings.TESSERA_SAMPLE_S, settings.TESSERA_SAMPLE_WATCHED_S), "scheduler.tasks.sample_when_due"
    )
