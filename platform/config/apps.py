"""The wiring as a Django app: with it every process that knows the models also knows the broker."""

from django.apps import AppConfig

from config.celery import app as celery_app


class WiringConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        celery_app.set_default()
