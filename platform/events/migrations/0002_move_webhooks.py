from django.db import migrations


class Migration(migrations.Migration):
    """Webhooks have an app of their own, which keeps their tables."""

    dependencies = [("events", "0001_schema")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel("Delivery"), migrations.DeleteModel("Webhook")]
        )
    ]
