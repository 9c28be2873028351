import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("events", "0001_initial"), ("events", "0002_outgoing"), ("events", "0003_rest")]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("kind", models.CharField(max_length=20)),
                ("object_id", models.BigIntegerField()),
                ("label", models.CharField(max_length=80)),
                ("seq", models.PositiveIntegerField()),
                ("verb", models.CharField(max_length=40)),
                ("from_state", models.CharField(blank=True, max_length=12)),
                ("to_state", models.CharField(blank=True, max_length=12)),
                ("reason", models.CharField(blank=True, max_length=40)),
                ("actor", models.CharField(max_length=64)),
                ("actor_id", models.BigIntegerField(null=True)),
                ("team_id", models.BigIntegerField(null=True)),
                ("owner_id", models.BigIntegerField(null=True)),
                ("params", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["id"],
                "indexes": [models.Index(fields=["team_id", "id"], name="events_of_team")],
                "constraints": [models.UniqueConstraint(fields=("kind", "object_id", "seq"), name="one_event_seq")],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(null=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("claim_no", models.PositiveIntegerField(default=0)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, max_length=40)),
                ("user_id", models.BigIntegerField()),
                ("kind", models.CharField(max_length=30)),
                ("object_kind", models.CharField(max_length=20)),
                ("object_id", models.BigIntegerField()),
                ("label", models.CharField(max_length=80)),
                ("params", models.JSONField(default=dict)),
                ("in_portal", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("read_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="due_mails"),
                    models.Index(fields=["user_id", "-id"], name="notices_of_user"),
                    models.Index(
                        condition=models.Q(("in_portal", True), ("read_at__isnull", True)),
                        fields=["user_id"],
                        name="unread_notices",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NoticeChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_id", models.BigIntegerField()),
                ("kind", models.CharField(max_length=30)),
                ("portal", models.BooleanField()),
                ("mail", models.BooleanField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user_id", "kind"), name="one_notice_choice")],
            },
        ),
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="events.webhook"
                    ),
                ),
            ],
            options={
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
