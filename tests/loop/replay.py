"""Play one life again and print what happened: PYTHONPATH=.:platform python -m tests.loop.replay SEED [--acts N]"""

import argparse
import logging
import os

import django


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--acts", type=int, default=None, help="fewer acts, to see how a life begins")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    logging.disable(logging.CRITICAL)
    from tests.loop.life import life, live  # noqa: PLC0415 (Django's models need its settings first)
    from tests.loop.world import ACTS, Broken  # noqa: PLC0415

    with life(asked.seed, asked.acts or ACTS) as world:
        try:
            live(world)
        except Broken as broken:
            print("\n".join(world.trace))
            print(broken.args[0].splitlines()[0])
        else:
            print("\n".join(world.trace))
            print(f"No promise was broken in {world.steps} steps.")


if __name__ == "__main__":
    main()
