import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("portal", "0001_initial"), ("portal", "0002_notebook_apps")]

    initial = True

    dependencies = [
        ("jobs", "0001_schema"),
        ("notebooks", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="App",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(max_length=20, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("notebook", "notebook"), ("port", "port"), ("tensorboard", "TensorBoard")],
                        max_length=12,
                    ),
                ),
                ("role", models.CharField(blank=True, max_length=32)),
                ("rank", models.PositiveIntegerField(default=0)),
                ("port", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "notebook",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="notebooks.notebook",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "verbose_name": "app",
                "verbose_name_plural": "apps",
            },
        ),
        migrations.CreateModel(
            name="AppCode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("session_key", models.CharField(max_length=40)),
                ("state", models.CharField(max_length=64)),
                ("path", models.TextField()),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "app",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="portal.app"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AppSession",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("session_key", models.CharField(max_length=40)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                (
                    "app",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="portal.app"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="app",
            constraint=models.UniqueConstraint(
                condition=models.Q(("job__isnull", False)),
                fields=("job", "kind", "role", "rank", "port"),
                name="one_app_of_job",
            ),
        ),
    ]
