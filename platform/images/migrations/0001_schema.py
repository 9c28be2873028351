import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import images.models
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [("images", "0001_initial"), ("images", "0002_fetch")]

    initial = True

    dependencies = [
        ("accounts", "0001_schema"),
        ("cluster", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="Image",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "alias",
                    models.CharField(
                        help_text="The name people use, such as pytorch.",
                        max_length=63,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9][a-z0-9._-]{0,62}\\Z",
                                "Use lower-case letters, digits, dots, hyphens and underscores.",
                            )
                        ],
                        verbose_name="alias",
                    ),
                ),
                (
                    "reference",
                    models.CharField(
                        help_text="Like registry/name:tag.",
                        max_length=400,
                        validators=[images.models.check_reference],
                        verbose_name="image",
                    ),
                ),
                ("description", models.CharField(blank=True, max_length=200, verbose_name="description")),
                (
                    "prepull",
                    models.BooleanField(
                        default=False,
                        help_text="Machines pull it, a few at a time, before a job needs it.",
                        verbose_name="pull in advance",
                    ),
                ),
                ("digest", models.CharField(blank=True, editable=False, max_length=71)),
                ("problem", models.CharField(blank=True, editable=False, max_length=20)),
                ("problem_words", models.CharField(blank=True, editable=False, max_length=200)),
                ("checked_at", models.DateTimeField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        help_text="Only for this team. Empty: for everyone.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="images",
                        to="accounts.team",
                        verbose_name="team",
                    ),
                ),
            ],
            options={
                "verbose_name": "image",
                "verbose_name_plural": "images",
                "ordering": ["alias", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Fetch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(unique=True)),
                ("pinned", models.CharField(max_length=600)),
                ("began_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("words", models.CharField(blank=True, max_length=300)),
                (
                    "node",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="cluster.node"),
                ),
                (
                    "image",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="fetches",
                        to="images.image",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Login",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "registry",
                    models.CharField(
                        help_text="The host, such as registry.corp:5000.",
                        max_length=255,
                        validators=[images.models.check_registry],
                        verbose_name="registry",
                    ),
                ),
                ("user", models.CharField(max_length=200, verbose_name="user")),
                ("sealed", models.TextField(editable=False)),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        help_text="Used only for this team's jobs. Empty: for everyone's.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="logins",
                        to="accounts.team",
                        verbose_name="team",
                    ),
                ),
            ],
            options={
                "verbose_name": "registry login",
                "verbose_name_plural": "registry logins",
                "ordering": ["registry", "pk"],
            },
        ),
        migrations.AddConstraint(
            model_name="image",
            constraint=models.UniqueConstraint(
                condition=models.Q(("team__isnull", True)), fields=("alias",), name="one_alias_for_all"
            ),
        ),
        migrations.AddConstraint(
            model_name="image",
            constraint=models.UniqueConstraint(fields=("alias", "team"), name="one_alias_of_a_team"),
        ),
        migrations.AddConstraint(
            model_name="fetch",
            constraint=models.UniqueConstraint(fields=("image", "node"), name="one_fetch"),
        ),
        migrations.AddConstraint(
            model_name="login",
            constraint=models.UniqueConstraint(
                condition=models.Q(("team__isnull", True)), fields=("registry",), name="one_login_for_all"
            ),
        ),
        migrations.AddConstraint(
            model_name="login",
            constraint=models.UniqueConstraint(fields=("registry", "team"), name="one_login_of_a_team"),
        ),
    ]
