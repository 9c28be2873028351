"""Management commands for the supervisor in one process, since loading Django takes long.

Reads one JSON list per line, ["migrate", "--verbosity", "0"]; writes what it printed as a JSON string. The first
failure ends the process.
"""

import contextlib
import io
import json
import sys

import django
from django.core.management import call_command


def main() -> None:
    answers = sys.stdout
    django.setup()
    for line in sys.stdin:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            call_command(*json.loads(line), stdout=printed)
        print(json.dumps(printed.getvalue()), file=answers, flush=True)


if __name__ == "__main__":
    main()
