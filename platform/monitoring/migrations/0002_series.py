import django.contrib.postgres.fields
from django.db import migrations, models


SAMPLES = """
CREATE TABLE monitoring_sample (
    kind smallint NOT NULL CHECK (kind >= 0), subject bigint NOT NULL, card bigint NOT NULL, at timestamptz NOT NULL,
    span_ms integer NOT NULL CHECK (span_ms >= 0), source varchar(9) NOT NULL, "values" integer[] NOT NULL,
    PRIMARY KEY (kind, subject, card, at)
) PARTITION BY RANGE (at);
CREATE UNLOGGED TABLE monitoring_sample_rest PARTITION OF monitoring_sample DEFAULT;
"""
PACKS = """
CREATE TABLE monitoring_{name}pack (
    kind smallint NOT NULL CHECK (kind >= 0), subject bigint NOT NULL, card bigint NOT NULL, start timestamptz NOT NULL,
    source varchar(9) NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (kind, subject, card, start)
) PARTITION BY RANGE (start);
ALTER TABLE monitoring_{name}pack ALTER data SET STORAGE EXTERNAL;  -- deflated already
CREATE TABLE monitoring_{name}pack_rest PARTITION OF monitoring_{name}pack DEFAULT;
"""
TABLES = ("monitoring_sample", "monitoring_finepack", "monitoring_minutepack", "monitoring_hourpack")
CREATE = [SAMPLES, *(PACKS.format(name=name) for name in ("fine", "minute", "hour"))]
DROP = [f"DROP TABLE {table}" for table in TABLES]


class Migration(migrations.Migration):

    dependencies = [
        ('monitoring', '0001_now'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(CREATE, DROP)],
            state_operations=[
            migrations.CreateModel(
                name='FinePack',
                fields=[
                    ('pk', models.CompositePrimaryKey('kind', 'subject', 'card', 'start', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('kind', models.PositiveSmallIntegerField(choices=[(1, 'Card'), (2, 'Task'), (3, 'Share'), (4, 'Node'), (5, 'Pool'), (6, 'Team')])),
                    ('subject', models.BigIntegerField()),
                    ('card', models.BigIntegerField(default=0)),
                    ('start', models.DateTimeField()),
                    ('source', models.CharField(choices=[('measured', 'Measured'), ('estimated', 'Estimated'), ('simulated', 'Simulated')], max_length=9)),
                    ('data', models.BinaryField()),
                ],
                options={
                    'abstract': False,
                },
            ),
            migrations.CreateModel(
                name='HourPack',
                fields=[
                    ('pk', models.CompositePrimaryKey('kind', 'subject', 'card', 'start', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('kind', models.PositiveSmallIntegerField(choices=[(1, 'Card'), (2, 'Task'), (3, 'Share'), (4, 'Node'), (5, 'Pool'), (6, 'Team')])),
                    ('subject', models.BigIntegerField()),
                    ('card', models.BigIntegerField(default=0)),
                    ('start', models.DateTimeField()),
                    ('source', models.CharField(choices=[('measured', 'Measured'), ('estimated', 'Estimated'), ('simulated', 'Simulated')], max_length=9)),
                    ('data', models.BinaryField()),
                ],
                options={
                    'abstract': False,
                },
            ),
            migrations.CreateModel(
                name='MinutePack',
                fields=[
                    ('pk', models.CompositePrimaryKey('kind', 'subject', 'card', 'start', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('kind', models.PositiveSmallIntegerField(choices=[(1, 'Card'), (2, 'Task'), (3, 'Share'), (4, 'Node'), (5, 'Pool'), (6, 'Team')])),
                    ('subject', models.BigIntegerField()),
                    ('card', models.BigIntegerField(default=0)),
                    ('start', models.DateTimeField()),
                    ('source', models.CharField(choices=[('measured', 'Measured'), ('estimated', 'Estimated'), ('simulated', 'Simulated')], max_length=9)),
                    ('data', models.BinaryField()),
                ],
                options={
                    'abstract': False,
                },
            ),
            migrations.CreateModel(
                name='Sample',
                fields=[
                    ('pk', models.CompositePrimaryKey('kind', 'subject', 'card', 'at', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('kind', models.PositiveSmallIntegerField(choices=[(1, 'Card'), (2, 'Task'), (3, 'Share'), (4, 'Node'), (5, 'Pool'), (6, 'Team')])),
                    ('subject', models.BigIntegerField()),
                    ('card', models.BigIntegerField(default=0)),
                    ('at', models.DateTimeField()),
                    ('span_ms', models.PositiveIntegerField()),
                    ('source', models.CharField(choices=[('measured', 'Measured'), ('estimated', 'Estimated'), ('simulated', 'Simulated')], max_length=9)),
                    ('values', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(null=True), size=None)),
                ],
            ),
            ],
        ),
        migrations.CreateModel(
            name='PackedUntil',
            fields=[
                ('tier', models.CharField(max_length=10, primary_key=True, serialize=False)),
                ('until', models.DateTimeField()),
                ('kind', models.PositiveSmallIntegerField(default=0)),
                ('subject', models.BigIntegerField(default=0)),
                ('card', models.BigIntegerField(default=0)),
            ],
        ),
    ]
