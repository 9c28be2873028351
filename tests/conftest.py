"""What every test shares: only loopback as network, Chromium where there is one, skips that cannot be overlooked."""

import fcntl
import gc
import ipaddress
import os
import re
import shutil
import socket
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db import connection, transaction
from django.test import Client, TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from playwright.sync_api import expect, sync_playwright
from psycopg.pq import TransactionStatus
from whitenoise.middleware import WhiteNoiseMiddleware

from monitoring.models import ProcessNow
from tests.local_cluster import (
    CLUSTER_LOCK,
    NO_CLUSTER,
    REQUIRED,
    SESSION,
    Kubectl,
    can_have_cluster,
    claim_cluster,
    end_cluster,
    identify_process,
    is_allowed,
    local_place,
    run_cluster,
)
from tests.make import session
from tests.migrated_database import prepare_migrated_database
from tests.quiet_chromium import launch_chromium
from tests.web_process import started

# How long an example takes tells of the machine, not of the code: many tests share it.
hypothesis_settings.register_profile("tessera", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("tessera")

CHROMIUM_NAMES = (
    "chromium-headless-shell",  # first: a quarter cheaper
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
NO_BROWSER = "NO CHROMIUM: the browser tests were skipped. Install chromium or set TESSERA_CHROMIUM."
ASKED_MARK = re.compile(r"(\w+)( and not \w+)*$")
KEPT_TABLES = {"django_content_type", "auth_permission"}  # of the migrations, and the same for ever
CLUSTER_TIMEOUT_S = 400
SLOW_TIMEOUT_S = 300  # several platforms share two cores then
SESSIONS_END_S = 5
BROWSER_MS = (
    30_000  # Playwright's own for what is clicked; of what is expected it waits 5 s, too short beside a cluster
)
NO_GPU = "NO NVIDIA GPU: the GPU tests were skipped."

real_connect, real_connect_ex = socket.socket.connect, socket.socket.connect_ex


class NetworkForbidden(AssertionError):
    """A test tried to leave this machine."""


def check_address(family: int, address) -> None:
    if family == socket.AF_UNIX:
        return
    host = str(address[0])
    if host == "localhost" or host.endswith(".localhost"):
        return
    try:
        address_here = ipaddress.ip_address(host.partition("%")[0])
        allowed = address_here.is_loopback or is_allowed(address_here)
    except ValueError:
        allowed = False
    if not allowed:
        raise NetworkForbidden(f"tests may connect to this machine only, not to {address}")


def guarded_connect(self, address):
    check_address(self.family, address)
    return real_connect(self, address)


def guarded_connect_ex(self, address):
    check_address(self.family, address)
    return real_connect_ex(self, address)


def pytest_configure(config):
    os.environ.setdefault(SESSION, identify_process())
    socket.socket.connect = guarded_connect
    socket.socket.connect_ex = guarded_connect_ex
    gc.disable()  # until all is collected: some million objects, of which none goes


def pytest_collection_finish():
    gc.freeze()  # what was collected stays, and is not looked through again
    gc.set_threshold(50_000, 20, 20)  # a page makes thousands of objects of which nearly all go by themselves
    gc.enable()


def pytest_unconfigure(config):
    socket.socket.connect = real_connect
    socket.socket.connect_ex = real_connect_ex
    end_cluster()


def find_chromium() -> str:
    """TESSERA_CHROMIUM, a Chromium on PATH, or one that Playwright downloaded; "" when there is none."""
    if chosen := os.environ.get("TESSERA_CHROMIUM"):
        return chosen
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name):
            return found
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")
    return max((str(path) for path in cache.glob("chromium-*/chrome-linux*/chrome")), default="")


def pytest_ignore_collect(collection_path, config) -> bool | None:
    """A file that never names the mark that is asked for (`-m "slow and not kubernetes"`) is not even imported."""
    asked = ASKED_MARK.match(config.option.markexpr)
    if not asked or not collection_path.name.startswith("test_"):
        return None
    return not names_mark(collection_path, asked[1]) or None


def pytest_collection_modifyitems(config, items):
    if not find_chromium() and os.environ.get("TESSERA_REQUIRE_BROWSER") != "1":
        skip_marked(items, "browser", NO_BROWSER)
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        skip_marked(items, "gpu", NO_GPU)
    if not can_have_cluster() and not REQUIRED:
        skip_marked(items, "kubernetes", NO_CLUSTER)
    put_long_files_first(items)
    for item in items:
        for mark in ("slow", "kubernetes"):
            if item.get_closest_marker(mark) and not names_mark(item.path, mark):
                raise pytest.UsageError(f"{item.path} does not say “{mark}”: -m {mark} would not find its tests")
        if item.get_closest_marker("kubernetes"):
            own = item.get_closest_marker("timeout")
            seconds = own.args[0] if own else CLUSTER_TIMEOUT_S
            limit = pytest.mark.timeout(seconds, func_only=True)  # to wait for the cluster may take longer
            item.add_marker(limit, append=False)
        elif item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


@cache
def names_mark(path: Path, mark: str) -> bool:
    return mark in path.read_text().lower()


def put_long_files_first(items) -> None:
    """Those that say so, then those of many tests: the last file of one worker is no long one, while others idle.

    Files of one folder that use a web process stay together, so that they can share it. Those that have the cluster
    alone come last: they would stand in the way of those that share it.
    """
    tests = Counter(item.path for item in items)
    most: Counter[Path] = Counter()
    for item in items:
        most[group_of(item)] = max(most[group_of(item)], tests[item.path])
    items.sort(
        key=lambda item: (
            has_cluster_alone(item),
            item.get_closest_marker("begins_first") is None,
            -most[group_of(item)],
        )
    )


def has_cluster_alone(item) -> bool:
    return "cluster_turn" in item.fixturenames and not shares_cluster(item.module)


def shares_cluster(module) -> bool:
    return getattr(module, "BESIDE_OTHERS", False)


def group_of(item) -> Path:
    return item.path.parent if "web" in item.fixturenames else item.path


def skip_marked(items, marker: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(marker):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter):
    """One loud line for each kind of test that this machine could not run."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for line in (NO_BROWSER, NO_GPU, NO_CLUSTER):
        if count := sum(line in reason for reason in reasons):
            terminalreporter.write_line(f"!!! {line} ({count} skipped)", red=True, bold=True)


def pytest_sessionfinish(session):
    """Where a cluster must be there, a skipped test is a failure of the whole."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if REQUIRED and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Beside a failure stands where the web process was, if the test has one: some only hang on a loaded machine."""
    if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
        for web in started:
            item.add_report_section(call.when, "web process", web.ask_stacks())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """A transaction that a file of tests leaves open would break the files after it: its last test fails."""
    result, session = (yield), connection.connection
    is_last = nextitem is None or nextitem.path != item.path
    if is_last and session is not None and session.info.transaction_status != TransactionStatus.IDLE:
        connection.connection = None
        session.close()
        pytest.fail(f"{item.path.name} left a transaction open, or a connection that is closed")
    return result


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings, django_db_blocker):
    """The worker's database is a copy."""
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = prepare_migrated_database()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """Before the database is dropped, wait for sessions of processes that were killed a moment ago, then end them."""
    yield
    with django_db_blocker.unblock():
        try:
            end_other_sessions()
        finally:
            connection.close()  # a test with a browser leaves another context, and this is another connection then


def end_other_sessions() -> None:
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    until = time.monotonic() + SESSIONS_END_S
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(f"SELECT count(*) {others}")
            if cursor.fetchone() == (0,):
                return
            time.sleep(0.1)
        cursor.execute(f"SELECT pg_terminate_backend(pid, 5000) {others}")


@pytest.fixture(scope="session", autouse=True)
def rows_deleted_after_tests_that_commit():
    """Django would truncate every table, which makes some 300 files anew, and then write its permissions again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", delete_rows)
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_listed_once():
    """Each client of Django's builds the middlewares anew, and WhiteNoise would look at every static file each time."""
    list_files, listed = WhiteNoiseMiddleware.add_files_from_finders, {}

    def list_once(middleware) -> None:
        if not listed:
            list_files(middleware)
            listed.update(middleware.files)
        middleware.files.update(listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", list_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def cheap_hashes():
    """Of the same kind: a real one takes a tenth of a second and 100 MiB."""
    with pytest.MonkeyPatch.context() as patch:
        for cost, least in (("time_cost", 1), ("memory_cost", 8), ("parallelism", 1)):
            patch.setattr(Argon2PasswordHasher, cost, least)
        yield


@pytest.fixture(scope="session", autouse=True)
def cheap_sign_in():
    """Django's own writes the session three times, and the person."""
    in_full = Client.force_login

    def sign_in(client, user, backend=None) -> None:
        if backend or settings.SESSION_COOKIE_NAME in client.cookies:
            in_full(client, user, backend)
        else:
            client.cookies[settings.SESSION_COOKIE_NAME] = session(user)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "force_login", sign_in)
        yield


def delete_rows(case) -> None:
    """All rows but those of migrations. Foreign keys are deferred: in one transaction the order does not matter."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    wanted = [connection.ops.quote_name(name) for name in tables if name not in KEPT_TABLES]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("; ".join(f"DELETE FROM {name}" for name in wanted))


@pytest.fixture(scope="module")
def rows_of_file(django_db_setup, django_db_blocker) -> Iterator[None]:
    """For rows that a file's tests share: each test's own transaction lies within this one and leaves it as it was.

    Not for files with tests that commit.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def cluster_turn(request) -> Iterator[None]:
    """One cluster for each machine: a file of tests has it alone, but for files that say BESIDE_OTHERS = True.

    Those leave its nodes and parts as they are, and make only what bears the name of their own installation.
    """
    with open(CLUSTER_LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shares_cluster(request.module) else fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def kubeconfig(cluster_turn) -> Path:
    """Of the cluster in KUBECONFIG, else of bin/cluster's, which is started where it does not run."""
    if given := os.environ.get("KUBECONFIG"):
        return Path(given)
    run_cluster("up", *(["--kwok", "3"] if claim_cluster() else []))
    return local_place().kubeconfig


@pytest.fixture(scope="module")
def own_cluster(kubeconfig) -> Path:
    """The kubeconfig of bin/cluster's cluster, with a fake node or more; another one has no such node or registry."""
    if kubeconfig != local_place().kubeconfig:
        pytest.skip("KUBECONFIG names another cluster than bin/cluster's")
    if not Kubectl(kubeconfig, "default")("get", "nodes", "-l", "type=kwok", "-o", "name"):
        run_cluster("up", "--kwok", "1")
    return kubeconfig


@pytest.fixture
def no_processes(db) -> None:
    """What web processes of other files' tests said of themselves is gone: they outlive the rows of their own tests."""
    ProcessNow.objects.all().delete()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    path = find_chromium()
    assert path, NO_BROWSER
    return path


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """A Chromium driven by Playwright; each test opens a context of its own in it.

    For one file only: while Playwright is open its event loop runs in this thread, so that no asynchronous test can,
    and Django takes everything for asynchronous code.
    """
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    expect.set_options(timeout=BROWSER_MS)
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright, chromium_path)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
