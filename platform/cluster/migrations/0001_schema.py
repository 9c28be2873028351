import cluster.models
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("cluster", "0001_initial"),
        ("cluster", "0002_policy_per_pool"),
        ("cluster", "0003_windows"),
        ("cluster", "0004_maintenance"),
        ("cluster", "0005_maintenance_words"),
        ("cluster", "0006_weight_data"),
        ("cluster", "0007_short_first"),
        ("cluster", "0008_agents"),
        ("cluster", "0009_agent_logs_at"),
        ("cluster", "0010_pool_allows_mps"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Agent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "node_name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use 1 to 63 letters, digits, dots, underscores and hyphens.",
                            )
                        ],
                        verbose_name="machine",
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                (
                    "enrolled_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="enrolled at"
                    ),
                ),
                ("revoked_at", models.DateTimeField(blank=True, null=True, verbose_name="revoked at")),
                ("reported_at", models.DateTimeField(blank=True, null=True, verbose_name="last report at")),
                ("logs_at", models.DateTimeField(blank=True, null=True, verbose_name="last log upload at")),
                ("report", models.JSONField(default=dict)),
                ("approved", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name": "agent",
                "verbose_name_plural": "agents",
                "ordering": ["node_name"],
            },
        ),
        migrations.CreateModel(
            name="Enrolment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "node_name",
                    models.CharField(
                        max_length=63,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z",
                                "Use 1 to 63 letters, digits, dots, underscores and hyphens.",
                            )
                        ],
                        verbose_name="machine",
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "agent enrolment",
                "verbose_name_plural": "agent enrolments",
            },
        ),
        migrations.CreateModel(
            name="Pool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=32,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z][a-z0-9-]{0,30}[a-z0-9]$|^[a-z]$",
                                "Use 1 to 32 lower-case letters, digits and hyphens.",
                            )
                        ],
                        verbose_name="name",
                    ),
                ),
                ("description", models.CharField(blank=True, max_length=200, verbose_name="description")),
                ("shared", models.BooleanField(default=False, verbose_name="cards can be split into slices")),
                (
                    "max_slices_per_gpu",
                    models.PositiveSmallIntegerField(
                        default=8,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(64),
                        ],
                        verbose_name="slices per card at most",
                    ),
                ),
                (
                    "cpu_overcommit_percent",
                    models.PositiveSmallIntegerField(
                        default=100,
                        help_text="100 promises each core once; 300 promises each core three times.",
                        validators=[
                            django.core.validators.MinValueValidator(100),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                        verbose_name="CPU overcommit in percent",
                    ),
                ),
                (
                    "accepts_watched_only",
                    models.BooleanField(
                        default=True, verbose_name="accept slices whose memory limit is watched, not enforced"
                    ),
                ),
                (
                    "allows_mps",
                    models.BooleanField(
                        db_default=True,
                        default=True,
                        help_text="Used where the machine supports MPS. Off: the slices of a card take turns, and a fault in one program does not end others.",
                        verbose_name="slices may share compute by MPS",
                    ),
                ),
                (
                    "default_max_time_s",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="default time limit of a job, in seconds"
                    ),
                ),
                (
                    "max_grace_s",
                    models.PositiveIntegerField(
                        default=300,
                        validators=[
                            django.core.validators.MinValueValidator(10),
                            django.core.validators.MaxValueValidator(3600),
                        ],
                        verbose_name="longest grace period before a stop, in seconds",
                    ),
                ),
                (
                    "ageing_s",
                    models.PositiveIntegerField(
                        default=43200,
                        validators=[
                            django.core.validators.MinValueValidator(60),
                            django.core.validators.MaxValueValidator(7776000),
                        ],
                        verbose_name="waiting time that raises a job by one priority class, in seconds",
                    ),
                ),
                (
                    "reservations",
                    models.PositiveSmallIntegerField(
                        default=2,
                        help_text="How many jobs at the head of the queue for the same cards get a reserved start, which jobs behind them cannot delay.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(16),
                        ],
                        verbose_name="reserved starts",
                    ),
                ),
                (
                    "preempt",
                    models.BooleanField(
                        default=True,
                        help_text="Only preemptible jobs are stopped. A team can always take back its guarantee.",
                        verbose_name="higher priority preempts lower",
                    ),
                ),
                (
                    "short_first",
                    models.BooleanField(
                        default=False,
                        help_text="Orders the jobs of one person and priority class by `time` and cards. Long jobs move up as they wait; a job without `time` counts as one week.",
                        verbose_name="short jobs go first",
                    ),
                ),
                (
                    "stop_longer",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Only preemptible jobs of the same or a lower class. Empty: no job is stopped for this reason.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                        verbose_name="short jobs preempt jobs that are this many times longer",
                    ),
                ),
                (
                    "most_stops",
                    models.PositiveSmallIntegerField(
                        default=10,
                        help_text="A job that was stopped this often, for any reason, is no longer stopped for shorter jobs.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                        verbose_name="most stops of one job for shorter jobs",
                    ),
                ),
                (
                    "arrangement",
                    models.CharField(
                        choices=[
                            ("pack", "fill one machine after another"),
                            ("spread", "emptiest machine first"),
                        ],
                        default="pack",
                        max_length=8,
                        verbose_name="machine order",
                    ),
                ),
                (
                    "weight_useful",
                    models.PositiveSmallIntegerField(
                        default=100,
                        help_text="Prefer machines where the remaining resources still suit the usual jobs.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                        verbose_name="weight: usable remainder",
                    ),
                ),
                (
                    "weight_data",
                    models.PositiveSmallIntegerField(
                        default=20,
                        help_text="Prefer machines that already hold the data a job reads, by the time it would take to fetch it.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                        verbose_name="weight: data",
                    ),
                ),
                (
                    "weight_whole",
                    models.PositiveSmallIntegerField(
                        default=8,
                        help_text="Prefer cards that already hold slices, so that other cards stay whole.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                        verbose_name="weight: whole cards",
                    ),
                ),
                (
                    "weight_full_cards",
                    models.PositiveSmallIntegerField(
                        default=4,
                        help_text="Prefer the fullest card that still has room for a slice.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                        verbose_name="weight: full cards",
                    ),
                ),
                (
                    "weight_links",
                    models.PositiveSmallIntegerField(
                        default=2,
                        help_text="Prefer machines whose free cards have fast links to each other.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                        verbose_name="weight: links",
                    ),
                ),
                (
                    "weight_full_nodes",
                    models.PositiveSmallIntegerField(
                        default=1,
                        help_text="Prefer the fullest machine. Applies only where machines are filled one after another.",
                        validators=[django.core.validators.MaxValueValidator(1000)],
                        verbose_name="weight: full machines",
                    ),
                ),
            ],
            options={
                "verbose_name": "pool",
                "verbose_name_plural": "pools",
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(django.db.models.functions.text.Lower("name"), name="one_pool_name")
                ],
            },
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63, unique=True, verbose_name="name")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("READY", "Ready"),
                            ("CORDONED", "Cordoned"),
                            ("SUSPECT", "Suspect"),
                            ("NOT_READY", "Not ready"),
                        ],
                        default="READY",
                        max_length=10,
                        verbose_name="state",
                    ),
                ),
                ("address", models.CharField(blank=True, max_length=64, verbose_name="address")),
                ("boot_id", models.CharField(blank=True, max_length=64)),
                ("cpu_milli", models.PositiveIntegerField(verbose_name="CPU in thousandths of a core")),
                ("memory_mib", models.PositiveIntegerField(verbose_name="memory in MiB")),
                ("numa", models.JSONField(default=list, help_text="[{id, cpus, memory_mib}]")),
                ("topology", models.JSONField(default=dict, help_text='{"links": matrix as of nvidia-smi topo -m}')),
                (
                    "facts",
                    models.JSONField(default=dict, help_text="what the node's probe found: limits, isolation, driver"),
                ),
                ("last_seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="cluster.pool",
                        verbose_name="home pool",
                    ),
                ),
            ],
            options={
                "verbose_name": "node",
                "verbose_name_plural": "nodes",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Cached",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("key", models.CharField(max_length=200)),
                ("bytes", models.BigIntegerField()),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="cached", to="cluster.node"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("node", "kind", "key"), name="one_cached")],
            },
        ),
        migrations.CreateModel(
            name="Maintenance",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "why",
                    models.CharField(
                        blank=True, help_text="Everyone can read this.", max_length=200, verbose_name="reason"
                    ),
                ),
                ("begins_at", models.DateTimeField(db_index=True, verbose_name="from")),
                ("ends_at", models.DateTimeField(db_index=True, verbose_name="until")),
                (
                    "stops",
                    models.BooleanField(
                        default=False,
                        help_text="When it begins, preemptible jobs are stopped and queued again. Other jobs run to their end.",
                        verbose_name="stop jobs that can be queued again",
                    ),
                ),
                ("planned_by", models.CharField(blank=True, editable=False, max_length=150)),
                (
                    "nodes",
                    models.ManyToManyField(
                        blank=True, related_name="maintenances", to="cluster.node", verbose_name="machines"
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="maintenances",
                        to="cluster.pool",
                        verbose_name="all machines of the pool",
                    ),
                ),
            ],
            options={
                "verbose_name": "maintenance",
                "verbose_name_plural": "maintenance",
                "ordering": ["begins_at", "pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("begins_at"))),
                        name="maintenance_ends",
                        violation_error_message="The maintenance does not end after its beginning. Choose a later end.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Gpu",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.CharField(max_length=64, unique=True)),
                ("index", models.PositiveSmallIntegerField(verbose_name="index")),
                ("model", models.CharField(max_length=64, verbose_name="model")),
                ("product", models.CharField(blank=True, max_length=100)),
                ("memory_mib", models.PositiveIntegerField(verbose_name="memory in MiB")),
                ("reserved_mib", models.PositiveIntegerField(default=0, verbose_name="reserved by the driver, in MiB")),
                ("margin_mib", models.PositiveIntegerField(default=0, verbose_name="margin, in MiB")),
                ("numa", models.SmallIntegerField(blank=True, null=True)),
                ("bus", models.CharField(blank=True, max_length=32)),
                ("simulated", models.BooleanField(default=False, verbose_name="simulated")),
                ("healthy", models.BooleanField(default=True, verbose_name="healthy")),
                ("fault", models.CharField(blank=True, max_length=300, verbose_name="why it is out of service")),
                ("enforcement", models.CharField(default="watchdog", max_length=20, verbose_name="memory limit enforced by")),
                ("probed_at", models.DateTimeField(blank=True, null=True)),
                ("evidence", models.CharField(blank=True, max_length=300)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="gpus", to="cluster.node"
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="gpus",
                        to="cluster.pool",
                        verbose_name="pool",
                    ),
                ),
            ],
            options={
                "verbose_name": "GPU",
                "verbose_name_plural": "GPUs",
                "ordering": ["node_id", "index"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at__isnull", True)), fields=("node", "index"), name="one_gpu_index"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Window",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "weekdays",
                    models.CharField(
                        blank=True,
                        default="12345",
                        help_text="The days on which it begins.",
                        max_length=7,
                        validators=[django.core.validators.RegexValidator("^[1-7]*$")],
                        verbose_name="days",
                    ),
                ),
                ("begins", models.TimeField(verbose_name="from")),
                (
                    "ends",
                    models.TimeField(help_text="If not later than the beginning: on the next day.", verbose_name="until"),
                ),
                (
                    "zone",
                    models.CharField(
                        default="UTC", max_length=64, validators=[cluster.models.check_zone], verbose_name="time zone"
                    ),
                ),
                (
                    "holidays",
                    models.TextField(
                        blank=True,
                        help_text="Dates on which it lends all day, such as 2027-01-01, 2027-05-01.",
                        validators=[cluster.models.parse_dates],
                        verbose_name="holidays",
                    ),
                ),
                (
                    "borrower",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="borrows",
                        to="cluster.pool",
                        verbose_name="borrower",
                    ),
                ),
                (
                    "lender",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lends",
                        to="cluster.pool",
                        verbose_name="lender",
                    ),
                ),
            ],
            options={
                "verbose_name": "lending window",
                "verbose_name_plural": "lending windows",
                "ordering": ["lender", "begins", "pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("lender", models.F("borrower")), _negated=True), name="lends_to_another"
                    )
                ],
            },
        ),
    ]
