from django.db import migrations, models
from django.db.models import F


def name_the_jobs(apps, schema_editor):
    keys = apps.get_model("jobs", "IdempotencyKey").objects
    keys.filter(job=None).delete()
    keys.update(object_id=F("job_id"))


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_initial"),
    ]

    operations = [
        migrations.AddField("idempotencykey", "kind", models.CharField(default="job", max_length=20)),
        migrations.AddField("idempotencykey", "object_id", models.BigIntegerField(default=0)),
        migrations.RunPython(name_the_jobs, migrations.RunPython.noop),
        migrations.AlterField("idempotencykey", "kind", models.CharField(max_length=20)),
        migrations.AlterField("idempotencykey", "object_id", models.BigIntegerField()),
        migrations.RemoveField("idempotencykey", "job"),
    ]
