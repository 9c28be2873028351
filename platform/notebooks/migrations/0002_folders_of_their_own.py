from django.db import migrations, models
from django.db.models import F


def name_the_folders(apps, schema_editor):
    apps.get_model("notebooks", "Notebook").objects.update(folder_name=F("name"))


class Migration(migrations.Migration):
    dependencies = [
        ("notebooks", "0001_initial"),
    ]

    operations = [
        migrations.AddField("notebook", "folder_name", models.CharField(default="", max_length=44)),
        migrations.RunPython(name_the_folders, migrations.RunPython.noop),
        migrations.AlterField("notebook", "folder_name", models.CharField(max_length=44)),
        migrations.AddConstraint(
            "notebook",
            models.UniqueConstraint(
                fields=["user", "folder_name"], condition=models.Q(deleted_at=None), name="one_folder_per_notebook"
            ),
        ),
    ]
