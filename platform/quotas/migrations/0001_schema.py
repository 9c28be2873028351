import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("quotas", "0001_initial"), ("quotas", "0002_cell")]

    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("cluster", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Holding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.UUIDField(db_index=True)),
                ("gpu_memory_mib", models.PositiveIntegerField(default=0)),
                ("gpu_compute_percent", models.PositiveSmallIntegerField(default=0)),
                ("gpu_milli", models.PositiveIntegerField(default=0)),
                ("cpu_milli", models.PositiveIntegerField(default=0)),
                ("memory_mib", models.PositiveIntegerField(default=0)),
                ("numa", models.SmallIntegerField(null=True)),
                ("held_from", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "gpu",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holdings",
                        to="cluster.gpu",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="holdings", to="cluster.node"
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="cluster.pool"),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.team"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("released_at__isnull", True)), fields=["team", "pool"], name="live_by_team"
                    ),
                    models.Index(
                        condition=models.Q(("released_at__isnull", True)), fields=["user"], name="live_by_user"
                    ),
                    models.Index(
                        condition=models.Q(("released_at__isnull", True)), fields=["node"], name="live_by_node"
                    ),
                    models.Index(condition=models.Q(("released_at__isnull", True)), fields=["gpu"], name="live_by_gpu"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("gpu__isnull", True), models.Q(("cpu_milli", 0), ("memory_mib", 0)), _connector="OR"
                        ),
                        name="a_card_row_holds_a_card",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("released_at__isnull", True), ("released_at__gte", models.F("held_from")), _connector="OR"
                        ),
                        name="ends_after_it_begins",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Quota",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("gpu_milli_guarantee", models.PositiveIntegerField(default=0, verbose_name="GPU guarantee")),
                ("gpu_milli_limit", models.PositiveIntegerField(blank=True, null=True, verbose_name="GPU limit")),
                ("cpu_milli_guarantee", models.PositiveIntegerField(default=0, verbose_name="CPU guarantee")),
                ("cpu_milli_limit", models.PositiveIntegerField(blank=True, null=True, verbose_name="CPU limit")),
                ("memory_mib_guarantee", models.PositiveIntegerField(default=0, verbose_name="memory guarantee")),
                ("memory_mib_limit", models.PositiveIntegerField(blank=True, null=True, verbose_name="memory limit")),
                (
                    "weight",
                    models.PositiveSmallIntegerField(
                        default=1,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                        verbose_name="weight",
                    ),
                ),
                (
                    "cell",
                    models.PositiveSmallIntegerField(
                        default=1,
                        help_text="The GPU guarantee counts whole nodes with this many cards, so that a job of that size always finds one. 1: single cards on any node.",
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="cards per whole node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quotas",
                        to="cluster.pool",
                        verbose_name="pool",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quotas",
                        to="accounts.team",
                        verbose_name="team",
                    ),
                ),
            ],
            options={
                "verbose_name": "quota",
                "verbose_name_plural": "quotas",
                "ordering": ["pool__name", "team__name"],
                "constraints": [models.UniqueConstraint(fields=("team", "pool"), name="one_quota")],
            },
        ),
        migrations.CreateModel(
            name="UserLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("gpu_milli", models.PositiveIntegerField(blank=True, null=True, verbose_name="GPU")),
                ("cpu_milli", models.PositiveIntegerField(blank=True, null=True, verbose_name="CPU")),
                ("memory_mib", models.PositiveIntegerField(blank=True, null=True, verbose_name="memory")),
                ("jobs_running", models.PositiveIntegerField(blank=True, null=True, verbose_name="jobs running")),
                ("jobs_waiting", models.PositiveIntegerField(blank=True, null=True, verbose_name="jobs waiting")),
                (
                    "notebooks_running",
                    models.PositiveIntegerField(blank=True, null=True, verbose_name="notebooks running"),
                ),
                (
                    "notebook_hours",
                    models.PositiveIntegerField(blank=True, null=True, verbose_name="notebook hours"),
                ),
                (
                    "user",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limit",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "personal limit",
                "verbose_name_plural": "personal limits",
                "constraints": [
                    models.UniqueConstraint(
                        django.db.models.functions.comparison.Coalesce("user_id", 0), name="one_row_for_everyone"
                    )
                ],
            },
        ),
    ]
