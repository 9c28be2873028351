import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("scheduler", "0001_initial"), ("scheduler", "0002_forecast"), ("scheduler", "0003_raw_forecasts")]

    initial = True

    dependencies = [
        ("jobs", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("holder", models.CharField(blank=True, max_length=100)),
                ("epoch", models.BigIntegerField(default=0)),
                ("expires_at", models.DateTimeField(null=True)),
                ("wanted", models.BooleanField(default=False)),
                ("last_ok_at", models.DateTimeField(null=True)),
                ("last_ms", models.PositiveIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Forecast",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveSmallIntegerField()),
                ("made_at", models.DateTimeField()),
                ("first_p10", models.DateTimeField(null=True)),
                ("first_p90", models.DateTimeField(null=True)),
                ("raw_p10", models.DateTimeField(null=True)),
                ("raw_p90", models.DateTimeField(null=True)),
                ("told_at", models.DateTimeField()),
                ("p10", models.DateTimeField(null=True)),
                ("p50", models.DateTimeField(null=True)),
                ("p90", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["started_at"], name="forecasts_by_start")],
                "constraints": [models.UniqueConstraint(fields=("job", "attempt"), name="one_forecast")],
            },
        ),
    ]
