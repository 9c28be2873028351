"""bin/cluster: a real Kubernetes on this machine, for developers and tests.

eval "$(bin/cluster up --kwok 10)"     start it (and build it, the first time), use it in this shell
bin/cluster status                     what runs, which versions, which nodes
bin/cluster down                       take everything away again
bin/cluster build                      fill the cache only
"""

import argparse
import fcntl
import http.client
import sys
import time

from dev.cluster import build, images, notebook_image, registry
from dev.cluster.machine import load_recorded_host, read_boot_id, record_host
from dev.cluster.parts import cards, control_plane, kwok, node, storage
from dev.cluster.parts.api import answers, is_ready, list_nodes
from dev.cluster.parts.certificates import make_certificates
from dev.cluster.paths import LOCK, ClusterPaths, Refusal, claim, find_paths, make_folders, report
from dev.cluster.processes import find_parts
from dev.cluster.requirements import TO_BUILD, TO_RUN, check_machine, install
from dev.cluster.teardown import take_down

NOT_RUNNING = 3
MOST_QPS = 100_000


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        check_machine()
        with open(LOCK, "w") as lock:
            if options.verb in ("up", "down"):
                fcntl.flock(lock, fcntl.LOCK_EX)
            return VERBS[options.verb](find_paths(options.state, options.cache), options)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1


def parse(arguments: list[str]) -> argparse.Namespace:
    summary, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="bin/cluster",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=list(VERBS))
    parser.add_argument(
        "--kwok", type=count, metavar="N", help="fake nodes besides the real one (default: as many as there are)"
    )
    parser.add_argument(
        "--qps",
        type=rate,
        default=control_plane.REQUESTS_PER_S,
        metavar="N",
        help="requests a second that controller-manager and scheduler may send, twice as many at once (%(default)s);"
        " what runs already keeps what it was started with",
    )
    parser.add_argument(
        "--notebooks", action="store_true", help="an image that brings JupyterLab too (a minute at first)"
    )
    parser.add_argument("--mpi", action="store_true", help="an image that brings Open MPI and sshd (minutes at first)")
    parser.add_argument(
        "--state", default="", metavar="DIR", help="what the cluster writes (default /var/lib/tessera-cluster)"
    )
    parser.add_argument("--cache", default="", metavar="DIR", help="what is built (default ~/.cache/tessera/cluster)")
    return parser.parse_args(arguments)


def count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= kwok.MOST:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and {kwok.MOST}")
    return number


def rate(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_QPS:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and {MOST_QPS}")
    return number


def run_build(paths: ClusterPaths, options: argparse.Namespace) -> int:
    """Build what is missing, timed apart from starting."""
    began = time.monotonic()
    if not (build.is_built(paths) and images.are_made(paths)):
        install(TO_BUILD)
        build.build_missing(paths)
        images.make_images(paths)
        report(f"Built in {time.monotonic() - began:.0f} s, in {paths.cache}")
    if options.notebooks:
        notebook_image.make_notebook_image(paths)
    if options.mpi:
        install(TO_BUILD)
        images.make_image(paths, images.MPI)
    return 0


def run_up(paths: ClusterPaths, options: argparse.Namespace) -> int:
    install(TO_RUN)
    run_build(paths, options)
    before = load_recorded_host(paths)
    if before and before["boot"] != read_boot_id():
        report("This machine was restarted since: the cluster begins anew.")
        take_down(paths)
    claim(paths)
    record_host(paths)
    make_folders(paths)
    if find_parts(paths) and not build.is_linked(paths):
        raise Refusal("The cluster that runs was built of something else.\n  Take it down first: bin/cluster down")
    began = time.monotonic()
    for what, step in (
        ("certificates", prepare),
        ("etcd and API server", control_plane.start_etcd_and_apiserver),
        ("controllers and scheduler", lambda paths: control_plane.start_controllers(paths, options.qps)),
        ("registry", registry.start_registry),
        ("storage", storage.start_storage),
        ("node", node.start_node),
        ("simulated cards", cards.add_simulated_cards),
        ("kwok", lambda paths: start_fake_nodes(paths, options.kwok)),
    ):
        step_began = time.monotonic()
        step(paths)
        report(f"  {what}: {time.monotonic() - step_began:.1f} s")
    report(f"The cluster runs, started in {time.monotonic() - began:.1f} s. kubectl is {paths.bin}/kubectl.")
    print(f"export TESSERA_IMAGE={registry.default_image()}")
    if options.notebooks:
        notebooks = notebook_image.make_notebook_image(paths)
        print(f"export TESSERA_NOTEBOOK_IMAGE={registry.push(notebook_image.JUPYTER, notebooks)}")
    if options.mpi:
        report(f"The image for MPI is {registry.push(images.MPI, images.make_image(paths, images.MPI))}.")
    print(f"export KUBECONFIG={paths.kubeconfig}")
    return 0


def prepare(paths: ClusterPaths) -> None:
    build.link_programs(paths)
    make_certificates(paths)
    node.make_bridge()


def start_fake_nodes(paths: ClusterPaths, wanted: int | None) -> None:
    present = sum(map(kwok.is_fake, list_nodes(paths)))
    if wanted or present:
        kwok.start_kwok(paths)
        kwok.scale_fake_nodes(paths, present if wanted is None else wanted)


def run_down(paths: ClusterPaths, options: argparse.Namespace) -> int:
    began = time.monotonic()
    there_was_one = take_down(paths)
    report(
        f"Taken away in {time.monotonic() - began:.1f} s."
        if there_was_one
        else f"There is no cluster in {paths.state}."
    )
    return 0


def run_status(paths: ClusterPaths, options: argparse.Namespace) -> int:
    running = find_parts(paths)
    missing = [name for name in PARTS if name not in running]
    print(f"state    {paths.state}\ncache    {paths.cache}\nkubeconfig {paths.kubeconfig}")
    print("versions " + ", ".join(f"{name} {version}" for name, version in build.list_versions().items()))
    print("runs     " + (", ".join(f"{name} ({pid})" for name, pid in sorted(running.items())) or "nothing"))
    if missing:
        print("missing  " + ", ".join(missing) + "  (bin/cluster up starts them)")
    try:
        if answers(paths, "/readyz"):
            print("nodes    " + describe_nodes(list_nodes(paths)))
            return NOT_RUNNING if missing else 0
    except (OSError, http.client.HTTPException):
        pass
    print("nodes    unknown: the API server does not answer")
    return NOT_RUNNING


def describe_nodes(nodes: list[dict]) -> str:
    real = [
        f"{item['metadata']['name']} ({'Ready' if is_ready(item) else 'not Ready'})"
        for item in nodes
        if not kwok.is_fake(item)
    ]
    fake = [item for item in nodes if kwok.is_fake(item)]
    return ", ".join([*real, f"{len(fake)} fake ({sum(map(is_ready, fake))} Ready)"])


PARTS = (*control_plane.NAMES, "registry", storage.NAME, *node.NAMES)
VERBS = {"up": run_up, "down": run_down, "status": run_status, "build": run_build}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
