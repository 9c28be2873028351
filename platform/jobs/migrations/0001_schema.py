import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("jobs", "0001_initial"),
        ("jobs", "0002_answers_of_any_kind"),
        ("jobs", "0003_short_first"),
        ("jobs", "0004_task_gpu_use"),
        ("jobs", "0005_brought_log"),
        ("jobs", "0006_task_fetching_since"),
        ("jobs", "0007_task_resize"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("cluster", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("role", models.CharField(default="main", max_length=32)),
                ("rank", models.PositiveIntegerField(default=0)),
                ("attempt", models.PositiveSmallIntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("PENDING", "Waiting"),
                            ("ASSIGNED", "Placed"),
                            ("STARTING", "Starting"),
                            ("RUNNING", "Running"),
                            ("STOPPING", "Stopping"),
                            ("LOST", "Lost"),
                            ("STOPPED", "Stopped"),
                            ("SUCCEEDED", "Done"),
                            ("FAILED", "Failed"),
                        ],
                        default="PENDING",
                        max_length=12,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=40)),
                ("detail", models.CharField(blank=True, max_length=300)),
                ("epoch", models.BigIntegerField(null=True)),
                ("cpu_milli", models.PositiveIntegerField(default=0)),
                ("memory_mib", models.PositiveIntegerField(default=0)),
                (
                    "cards",
                    models.JSONField(
                        default=list, help_text="[{uuid, index, model, memory_mib, compute_percent, whole, simulated}]"
                    ),
                ),
                ("address", models.CharField(blank=True, max_length=64)),
                ("ports", models.JSONField(default=dict, help_text="{declared: actual}")),
                ("exit_code", models.IntegerField(null=True)),
                ("exit_signal", models.SmallIntegerField(null=True)),
                ("peak_memory_mib", models.PositiveIntegerField(null=True)),
                ("assigned_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("fetching_since", models.DateTimeField(help_text="of its image, while it starts", null=True)),
                ("checkpointed_at", models.DateTimeField(null=True)),
                (
                    "gpu_use",
                    models.JSONField(
                        db_default=[],
                        default=list,
                        help_text="[{uuid, limit_mib, used_mib, peak_mib, refused}] of shared cards, the newest sample",
                    ),
                ),
                (
                    "resize",
                    models.JSONField(
                        help_text="the newest wish for another size of its slice (jobs.running_slices); null: there was none",
                        null=True,
                    ),
                ),
                ("lost_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "node",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="tasks", to="cluster.node"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(blank=True, max_length=64)),
                (
                    "kind",
                    models.CharField(
                        choices=[("batch", "batch"), ("interactive", "interactive"), ("service", "service")],
                        default="batch",
                        max_length=12,
                    ),
                ),
                ("spec", models.JSONField()),
                ("gang", models.JSONField()),
                ("labels", models.JSONField(default=dict)),
                (
                    "priority",
                    models.SmallIntegerField(
                        choices=[(0, "low"), (1, "normal"), (2, "high"), (3, "urgent")], default=1
                    ),
                ),
                ("preemptible", models.BooleanField(default=False)),
                ("time_s", models.PositiveIntegerField(null=True)),
                ("max_time_s", models.PositiveIntegerField(null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("STARTING", "Starting"),
                            ("RUNNING", "Running"),
                            ("STOPPING", "Stopping"),
                            ("SUCCEEDED", "Done"),
                            ("FAILED", "Failed"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        default="QUEUED",
                        max_length=12,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=40)),
                ("exit_code", models.IntegerField(null=True)),
                ("attempt", models.PositiveSmallIntegerField(default=1)),
                ("retries_left", models.PositiveSmallIntegerField(default=0)),
                ("stops", models.PositiveSmallIntegerField(default=0, help_text="how often it was stopped for others")),
                ("submitted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("queued_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("not_before", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("stop_requested_at", models.DateTimeField(null=True)),
                ("stop_requested_by", models.CharField(blank=True, max_length=64)),
                ("stop_reason", models.CharField(blank=True, max_length=40)),
                ("held_at", models.DateTimeField(null=True)),
                ("held_by", models.CharField(blank=True, max_length=64)),
                ("wait_reasons", models.JSONField(default=list)),
                ("wait_position", models.PositiveIntegerField(null=True)),
                ("wait_of", models.PositiveIntegerField(null=True)),
                ("explained_at", models.DateTimeField(null=True)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="cluster.pool"
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="accounts.team"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="BroughtLog",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="brought",
                        serialize=False,
                        to="jobs.task",
                    ),
                ),
                ("behind_since", models.DateTimeField(null=True)),
                (
                    "end",
                    models.CharField(
                        blank=True,
                        choices=[("", "more may follow"), ("whole", "complete"), ("cut", "the end was lost on the machine")],
                        default="",
                        max_length=5,
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="task",
            name="job",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="jobs.job"),
        ),
        migrations.CreateModel(
            name="CodePack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=71)),
                ("files", models.PositiveIntegerField()),
                ("bytes", models.PositiveBigIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="code_packs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "digest"), name="one_code_pack")],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=200)),
                ("fingerprint", models.CharField(max_length=64)),
                ("kind", models.CharField(max_length=20)),
                ("object_id", models.BigIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "key"), name="one_idempotency_key")],
            },
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state__in", ["ASSIGNED", "LOST", "RUNNING", "STARTING", "STOPPING"])),
                fields=["state"],
                name="holding_tasks",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["FAILED", "STOPPED", "SUCCEEDED"]), _negated=True),
                fields=("job", "role", "rank"),
                name="one_live_task",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(fields=("job", "role", "rank", "attempt"), name="one_task_per_attempt"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(condition=models.Q(("state", "QUEUED")), fields=["pool", "id"], name="queued_jobs"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["team", "-id"], name="jobs_of_team"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["user", "state"], name="jobs_of_user"),
        ),
    ]
