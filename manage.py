#!/usr/bin/env python
"""Django's command line for AgentX; ``manage.py up`` starts everything on one machine."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.dev")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
        from django.db import OperationalError
    except ImportError:
        sys.exit(
            "Django is not installed in this Python: run `make run`, or use .venv/bin/python manage.py …"
        )
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except OperationalError:
        sys.exit("error: the database cannot be reached; is AgentX running? Start it with `make run`")


if __name__ == "__main__":
    main()
