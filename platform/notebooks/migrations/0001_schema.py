import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("notebooks", "0001_initial"), ("notebooks", "0002_folders_of_their_own")]

    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("jobs", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Notebook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(max_length=40)),
                ("folder_name", models.CharField(max_length=44)),
                ("spec", models.JSONField()),
                ("ready_at", models.DateTimeField(null=True)),
                ("opened_at", models.DateTimeField(null=True)),
                ("stops_at", models.DateTimeField(null=True)),
                ("warned_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("deleted_at", models.DateTimeField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="notebooks", to="accounts.team"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notebooks",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "notebook",
                "verbose_name_plural": "notebooks",
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at", None)), fields=("user", "name"), name="one_name_per_owner"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at", None)),
                        fields=("user", "folder_name"),
                        name="one_folder_per_notebook",
                    ),
                ],
            },
        ),
    ]
