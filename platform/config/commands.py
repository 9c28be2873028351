"""Management commands for the supervisor, all in one process: loading Django four times would double the start.

One JSON list per line comes in, ["migrate", "--verbosity", "0"]; what the command printed goes out as one JSON string.
The first failure ends the process; its traceback goes to stderr.
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
