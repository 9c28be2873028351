"""The Django app that sets the Celery app in every process."""

from django.apps import AppConfig

from config.celery import app as celery_app


class WiringConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        celery_app.set_default()
