import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0009_given_secrets'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='template',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='parent',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='copies', to='jobs.job'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('parent__isnull', False)), fields=['parent'], name='copies_of_job'),
        ),
    ]
