from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0009_agent_logs_at'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='allows_mps',
            field=models.BooleanField(
                db_default=True,
                default=True,
                help_text=(
                    "Where the machine allows MPS and it works there. Off: the slices of this pool's cards take turns, "
                    "and a fault of one program ends no other."
                ),
                verbose_name='slices may share compute by MPS',
            ),
        ),
    ]
