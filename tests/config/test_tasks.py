"""What is so of every Celery task."""

from celery import current_app

from config.celery import LivelyTask

OURS = ("portal.", "scheduler.", "monitoring.", "files.", "images.", "notebooks.")


def test_every_task_begins_on_a_living_connection():
    current_app.loader.import_default_modules()
    names = [name for name in current_app.tasks if name.startswith(OURS)]
    assert len(names) > 20 and all(isinstance(current_app.tasks[name], LivelyTask) for name in names)
