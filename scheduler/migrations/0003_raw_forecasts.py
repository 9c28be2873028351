from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0002_forecast"),
    ]

    operations = [
        migrations.AddField(model_name="forecast", name="raw_p10", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="forecast", name="raw_p90", field=models.DateTimeField(null=True)),
    ]
