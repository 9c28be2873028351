"""Report numbers of this task, which its job's page draws as curves.

    import tessera_report
    tessera_report.report(loss=0.31, step=100)
    tessera_report.report({"train/loss": 0.31}, step=100)

Without step, a number is the next one of its name. Outside of a task nothing is written, and that is no failure.
"""

import json
import os

PATH = os.environ.get("TESSERA_REPORT", "")


def report(numbers=None, /, *, step=None, **named):
    """Report numbers by name: what float() understands, also a tensor of one element."""
    line = {name: float(value) for name, value in {**(numbers or {}), **named}.items()}
    if step is not None:
        line["step"] = float(step)
    if not PATH or not line:
        return
    file = os.open(PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)
