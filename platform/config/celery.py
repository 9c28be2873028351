"""The Celery application and its beat schedule."""

import os

from celery import Celery

from config.heartbeat import AliveStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("tessera")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal", "scheduler", "files", "images", "notebooks"])
app.steps["consumer"].add(AliveStep)

# Messages expire after their period: the next beat repeats them.
app.conf.beat_schedule = {
    "cycle": {"task": "scheduler.tasks.cycle", "schedule": 1.0, "options": {"queue": "scheduler", "expires": 1}},
    "reconcile": {
        "task": "scheduler.tasks.reconcile",
        "schedule": 1.0,
        "options": {"queue": "scheduler", "expires": 1},
    },
    "look at notebooks": {
        "task": "notebooks.tasks.look",
        "schedule": 1.0,
        "options": {"queue": "default", "expires": 1},
    },
    "foretell": {
        "task": "scheduler.tasks.foretell",
        "schedule": 15.0,
        "options": {"queue": "default", "expires": 15},
    },
    "sweep_environments": {
        "task": "notebooks.tasks.sweep",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 600},
    },
    "inventory": {
        "task": "scheduler.tasks.take_inventory",
        "schedule": 30.0,
        "options": {"queue": "default", "expires": 30},
    },
    "measure_places": {
        "task": "files.tasks.measure_places",
        "schedule": 60.0,
        "options": {"queue": "default", "expires": 60},
    },
    "fetch_images": {
        "task": "scheduler.tasks.fetch_images",
        "schedule": 15.0,
        "options": {"queue": "default", "expires": 15},
    },
    "refresh_images": {
        "task": "images.tasks.refresh",
        "schedule": 120.0,
        "options": {"queue": "outside", "expires": 120},
    },
    "sweep_uploads": {
        "task": "files.tasks.sweep_uploads",
        "schedule": 600.0,
        "options": {"queue": "default", "expires": 600},
    },
    "send": {"task": "portal.tasks.send", "schedule": 5.0, "options": {"queue": "outside", "expires": 5}},
    "sweep_sent": {"task": "portal.tasks.sweep", "schedule": 3600.0, "options": {"queue": "outside", "expires": 600}},
    "sweep": {"task": "scheduler.tasks.sweep", "schedule": 600.0, "options": {"queue": "default", "expires": 600}},
}
