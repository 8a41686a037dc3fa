"""An index for the sweep over recent conversations, built without holding up those who write."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("conversations", "0007_model_records")]

    operations = [
        AddIndexConcurrently(
            model_name="conversation",
            index=models.Index(fields=["updated_at"], name="conversation_updated"),
        ),
    ]
