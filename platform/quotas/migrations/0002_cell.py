import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("quotas", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="quota",
            name="cell",
            field=models.PositiveSmallIntegerField(
                default=1,
                help_text="The GPU guarantee counts in whole nodes with so many cards, so that a job of that size always "
                "finds one. 1: in single cards, wherever they are.",
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="cards of a whole node",
            ),
        ),
    ]
