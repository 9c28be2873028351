import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("files", "0001_initial")]

    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PlaceUsage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=4)),
                ("number", models.PositiveIntegerField()),
                ("bytes", models.PositiveBigIntegerField(default=0)),
                ("files", models.PositiveBigIntegerField(default=0)),
                ("whole", models.BooleanField(default=True)),
                ("measured_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "number"), name="one_usage_of_a_place")],
            },
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(unique=True)),
                ("folder", models.TextField(blank=True)),
                ("name", models.TextField()),
                ("size", models.PositiveBigIntegerField()),
                ("replace", models.BooleanField(default=False)),
                ("sent", models.PositiveBigIntegerField(default=0)),
                ("counted", models.PositiveBigIntegerField(default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("touched_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "team",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="accounts.team"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uploads", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
    ]
