#!/usr/bin/env python3
"""Django's commands: `.venv/bin/python manage.py COMMAND`."""

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line

ROOT = Path(__file__).resolve().parent

if __name__ == "__main__":
    sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "platform")) if path not in sys.path]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    execute_from_command_line(sys.argv)
