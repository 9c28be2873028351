from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0001_schema")]

    operations = [
        migrations.AddField(
            model_name="lease",
            name="clock_jump_s",
            field=models.IntegerField(
                default=0, db_default=0, help_text="a step of a clock that is not believed yet"
            ),
        ),
    ]
