import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    """Take over the tables that events made."""

    initial = True

    dependencies = [("events", "0002_move_webhooks")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Webhook",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("user_id", models.BigIntegerField()),
                        ("team_id", models.BigIntegerField(null=True)),
                        ("name", models.CharField(max_length=64)),
                        ("url", models.CharField(max_length=500)),
                        (
                            "topics",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=60), default=list, size=None
                            ),
                        ),
                        ("salt", models.UUIDField(default=uuid.uuid4)),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("disabled_at", models.DateTimeField(null=True)),
                        ("disabled_why", models.CharField(blank=True, max_length=40)),
                        ("rests_until", models.DateTimeField(null=True)),
                    ],
                    options={
                        "db_table": "events_webhook",
                        "ordering": ["id"],
                        "indexes": [
                            models.Index(fields=["team_id"], name="webhooks_of_team"),
                            models.Index(fields=["user_id"], name="webhooks_of_user"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Delivery",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("due_at", models.DateTimeField(null=True)),
                        ("claimed_until", models.DateTimeField(null=True)),
                        ("claim_no", models.PositiveIntegerField(default=0)),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("error", models.CharField(blank=True, max_length=40)),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("tried_at", models.DateTimeField(null=True)),
                        ("status", models.PositiveSmallIntegerField(null=True)),
                        ("took_ms", models.PositiveIntegerField(null=True)),
                        (
                            "event",
                            models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="events.event"),
                        ),
                        (
                            "webhook",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="webhooks.webhook"
                            ),
                        ),
                    ],
                    options={
                        "db_table": "events_delivery",
                        "ordering": ["id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="due_deliveries"
                            ),
                            models.Index(fields=["webhook", "-id"], name="deliveries_of_webhook"),
                        ],
                    },
                ),
            ]
        )
    ]
