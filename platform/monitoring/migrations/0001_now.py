import django.db.models.deletion
from django.db import migrations, models


TABLES = ("monitoring_nodenow", "monitoring_cardnow", "monitoring_tasknow")
UNLOGGED = [
    # What is newest is soon sampled again: it needs no write-ahead log, and room on each page for its next version.
    f"ALTER TABLE {table} SET (fillfactor = 50); ALTER TABLE {table} SET UNLOGGED"
    for table in TABLES
]


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('cluster', '0002_high_priority'),
        ('jobs', '0004_choices'),
    ]

    operations = [
        migrations.CreateModel(
            name='CardNow',
            fields=[
                ('gpu', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='now', serialize=False, to='cluster.gpu')),
                ('at', models.DateTimeField()),
                ('term', models.PositiveIntegerField()),
                ('up_ms', models.PositiveBigIntegerField()),
                ('source', models.CharField(choices=[('measured', 'Measured'), ('estimated', 'Estimated'), ('simulated', 'Simulated')], max_length=9)),
                ('busy_ms', models.PositiveBigIntegerField(null=True)),
                ('busy_percent', models.FloatField(null=True)),
                ('used_mib', models.PositiveIntegerField(null=True)),
                ('temperature_c', models.PositiveSmallIntegerField(null=True)),
                ('power_w', models.PositiveIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='NodeNow',
            fields=[
                ('node', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='now', serialize=False, to='cluster.node')),
                ('run', models.CharField(blank=True, max_length=100)),
                ('run_before', models.CharField(blank=True, max_length=100)),
                ('term', models.PositiveIntegerField(default=0)),
                ('seq', models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='TaskNow',
            fields=[
                ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='now', serialize=False, to='jobs.task')),
                ('at', models.DateTimeField()),
                ('term', models.PositiveIntegerField()),
                ('up_ms', models.BigIntegerField()),
                ('cpu_ms', models.PositiveBigIntegerField(null=True)),
                ('cpu_milli', models.PositiveIntegerField(null=True)),
                ('memory_mib', models.PositiveIntegerField(null=True)),
                ('peak_mib', models.PositiveIntegerField(null=True)),
                ('processes', models.PositiveIntegerField(null=True)),
                ('read_kib', models.PositiveBigIntegerField(null=True)),
                ('read_kib_s', models.PositiveIntegerField(null=True)),
                ('write_kib', models.PositiveBigIntegerField(null=True)),
                ('write_kib_s', models.PositiveIntegerField(null=True)),
                ('shares', models.JSONField(default=list)),
            ],
        ),
        migrations.RunSQL(UNLOGGED, migrations.RunSQL.noop),
    ]
