from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0006_task_fetching_since'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='resize',
            field=models.JSONField(
                help_text='the newest wish for another size of its slice (jobs.resizing); null: there was none',
                null=True,
            ),
        ),
    ]
