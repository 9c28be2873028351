"""Django settings, read from the environment. Embedded and production differ only in these values."""

import os
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]


def env_text(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def env_bool(name: str, default: bool = False) -> bool:
    value = os.environ.get(name, "")
    if value.lower() in {"1", "true", "yes"}:
        return True
    if value.lower() in {"0", "false", "no"}:
        return False
    if value:
        raise ValueError(f"{name} must be 1 or 0, not {value!r}")
    return default


def env_int(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    try:
        return int(value) if value else default
    except ValueError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None


def env_list(name: str, default: str = "") -> list[str]:
    return [each.strip() for each in env_text(name, default).split(",") if each.strip()]


def env_one_of(name: str, *known: str) -> str:
    value = os.environ.get(name, "") or known[0]
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return value


def env_secret(name: str) -> str:
    """Return the value of NAME, or of the file NAME_FILE."""
    if path := os.environ.get(f"{name}_FILE"):
        return Path(path).read_text().strip()
    if value := os.environ.get(name):
        return value
    if os.environ.get("TESSERA_ROLE") in {"web", "worker", "beat"}:
        raise ValueError(f"{name} or {name}_FILE must be set")
    return "only-for-commands-and-tests-" + "0" * 40


def env_optional_secret(name: str) -> str:
    """Return the value of NAME, or of the file NAME_FILE; "" without either."""
    path = os.environ.get(f"{name}_FILE")
    return Path(path).read_text().strip() if path else os.environ.get(name, "")


def env_engine(name: str) -> dict[str, str]:
    """Return the address NAME_URL of a series engine, and what it asks for: NAME_TOKEN, or NAME_USER and NAME_PASSWORD.

    url: "" for none. Secrets may be in files.
    """
    url, user = env_text(f"{name}_URL"), env_text(f"{name}_USER")
    token, password = env_optional_secret(f"{name}_TOKEN"), env_optional_secret(f"{name}_PASSWORD")
    if url and not re.fullmatch(r"https?://[^\s@#]+", url):
        raise ValueError(f"{name}_URL must be like https://engine.example.net/path, without a password, not {url!r}")
    if token and user:
        raise ValueError(f"{name}_TOKEN and {name}_USER are both set: keep the one that the engine asks for")
    return {"url": url, "token": token, "user": user, "password": password, "authority": env_text(f"{name}_CA")}


def env_apps_url(name: str, default_from: str) -> str:
    """Return the wildcard URL of people's apps, such as https://*.apps.example.net, or "".

    By default http://*.localhost:PORT for a portal at localhost.
    """
    localhost = re.sub(r"^http://localhost(?=:|$)", "http://*.localhost", default_from)
    value = (env_text(name) or (localhost if localhost != default_from else "")).rstrip("/")
    if value and not re.fullmatch(r"https?://\*\.[a-z0-9.-]+(:\d+)?", value):
        raise ValueError(f"{name} must be like https://*.apps.example.net, not {value!r}")
    return value


TESSERA_VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

# Folders and addresses.
TESSERA_DATA = Path(env_text("TESSERA_DATA", str(ROOT / ".tessera")))
TESSERA_RUN = Path(env_text("TESSERA_RUN", str(TESSERA_DATA / "run")))
# Shared by all machines: on a cluster the volume that jobs mount.
TESSERA_STORAGE = Path(env_text("TESSERA_STORAGE", str(TESSERA_DATA)))
TESSERA_LOGS = Path(env_text("TESSERA_LOGS", str(TESSERA_STORAGE / "logs")))
TESSERA_CODE = Path(env_text("TESSERA_CODE", str(TESSERA_STORAGE / "code")))
TESSERA_FILES = Path(env_text("TESSERA_FILES", str(TESSERA_STORAGE / "files")))
# What a home and a team's folder may hold before uploads are refused. 0 = no limit.
TESSERA_HOME_BYTES = env_int("TESSERA_HOME_BYTES", 20 * 10**9)
TESSERA_TEAM_BYTES = env_int("TESSERA_TEAM_BYTES", 100 * 10**9)
TESSERA_ROW_CACHE = env_bool("TESSERA_ROW_CACHE", True)  # 0: each cycle reads all rows anew
TESSERA_PREDICT_LENGTHS = env_bool("TESSERA_PREDICT_LENGTHS", True)  # 0: jobs are taken to last as long as they say

# What the portal is called, and the wildcard host of notebooks and ports.
TESSERA_PUBLIC_URL = env_text("TESSERA_PUBLIC_URL", "http://localhost:8470").rstrip("/")
TESSERA_APPS_URL = env_apps_url("TESSERA_APPS_URL", TESSERA_PUBLIC_URL)

# What this process is.
TESSERA_EMBEDDED = env_bool("TESSERA_EMBEDDED")  # one machine and one trusted group, started by bin/start
TESSERA_ROLE = env_text("TESSERA_ROLE", "command")  # web, worker, beat or command
# Below this on the disk of TESSERA_DATA nothing new is accepted; 0 where the database is elsewhere.
TESSERA_DISK_RESERVE_MIB = env_int("TESSERA_DISK_RESERVE_MIB", 128 if TESSERA_EMBEDDED else 0)

# How long a clock must have kept to a jump until deadlines follow it; 0 = at once.
TESSERA_CLOCK_STEADY_S = env_int("TESSERA_CLOCK_STEADY_S", 600)

# How often a machine's cards and tasks are sampled where the platform sees it itself; 0 = never.
TESSERA_SAMPLE_S = env_int("TESSERA_SAMPLE_S", 10)
TESSERA_SAMPLE_WATCHED_S = env_int("TESSERA_SAMPLE_WATCHED_S", 2)  # while somebody looks at its curves
TESSERA_KEEP_RAW_H = env_int("TESSERA_KEEP_RAW_H", 3)  # hours of samples; then packs, each 10 s, minute and hour:
TESSERA_KEEP_FINE_D = env_int("TESSERA_KEEP_FINE_D", 7)
TESSERA_KEEP_MINUTES_D = env_int("TESSERA_KEEP_MINUTES_D", 60)
TESSERA_KEEP_HOURS_D = env_int("TESSERA_KEEP_HOURS_D", 730)
# After so many days without a sign of them people are reminded of what they hold; 0 = never.
TESSERA_AWAY_DAYS = env_int("TESSERA_AWAY_DAYS", 30)
TESSERA_CURRENCY = env_text("TESSERA_CURRENCY")  # of the prices of GPU-hours, such as EUR; only shown

# What Prometheus sends to /metrics, and where processes other than the portal's serve it: "0.0.0.0:9090", "" = nowhere.
TESSERA_METRICS_TOKEN = env_optional_secret("TESSERA_METRICS_TOKEN")
TESSERA_METRICS_LISTEN = env_text("TESSERA_METRICS_LISTEN")
# Where Prometheus asks this web process itself; by default at the portal's address.
TESSERA_WEB_METRICS = env_text("TESSERA_WEB_METRICS", urlsplit(TESSERA_PUBLIC_URL).netloc)

# A series engine beside PostgreSQL: where samples are sent by Prometheus remote write.
TESSERA_REMOTE_WRITE = env_engine("TESSERA_REMOTE_WRITE")
# Where charts ask it by PromQL for what PostgreSQL keeps no longer: the address before /api/v1.
TESSERA_REMOTE_READ = env_engine("TESSERA_REMOTE_READ")

# The runtime's dotted class name.
TESSERA_RUNTIME = env_text("TESSERA_RUNTIME", "runtimes.local.runtime.LocalRuntime")
KUBERNETES_OPTIONS = {
    "install": env_text("TESSERA_INSTALL", "tessera"),  # in every object's name, unique in a cluster
    "image": env_text("TESSERA_IMAGE", "docker.io/library/debian:12-slim"),  # of jobs without one
    "kubeconfig": env_text("KUBECONFIG") or None,  # None: the cluster around us
    "pull": env_text("TESSERA_IMAGE_PULL", "Always"),  # IfNotPresent opens private images to everybody on the node
    "pull_secret": env_text("TESSERA_PULL_SECRET"),  # a Secret in each team's namespace
    "account": env_text("TESSERA_KUBERNETES_ACCOUNT"),  # "namespace:name" of deploy/kubernetes/rights.yaml
    "tolerated": env_list("TESSERA_TOLERATED"),  # taint keys
    "private": env_list("TESSERA_JOBS_PRIVATE"),  # private networks and hosts that jobs may reach
    "nodes": env_text("TESSERA_NODES"),  # label selector of nodes, "" = all
    # Labels of nodes that name their network switch; the first that a node has counts. Topograph writes these.
    "switch_labels": env_list(
        "TESSERA_SWITCH_LABELS", "network.topology.nvidia.com/leaf,network.topology.nvidia.com/block"
    ),
    "per_s": float(env_int("TESSERA_KUBERNETES_QPS", 20)),  # requests per second and process
    "burst": env_int("TESSERA_KUBERNETES_BURST", 40),
    "log_dir": TESSERA_LOGS,  # of logs not shipped by agents
    "storage": {
        "storage_class": env_text("TESSERA_STORAGE_CLASS"),  # of one shared volume; "": jobs have no files
        "size": env_text("TESSERA_STORAGE_SIZE", "1Ti"),  # of each team's claim
        "access": env_text("TESSERA_STORAGE_ACCESS", "ReadWriteMany"),
        "root": TESSERA_STORAGE,
        "files": TESSERA_FILES,
        "code": TESSERA_CODE,
    },
}
LOCAL_OPTIONS = {
    "data_dir": TESSERA_DATA,
    "log_dir": TESSERA_LOGS,
    "run_dir": TESSERA_RUN,
    "files_dir": TESSERA_FILES,
    "gpus_text": env_text("TESSERA_GPUS", "2xV100-32GB"),
    "libvgpu": env_text("TESSERA_LIBVGPU") or None,
    "slice_library": env_text("TESSERA_SLICE"),  # "off", or a directory
    "gpu_above_s": env_int("TESSERA_GPU_ABOVE_S", 6),  # how long a task may exceed its slice
    "mps": env_bool("TESSERA_MPS"),  # slices share compute by NVIDIA MPS, else take turns
    "processes_most": env_int("TESSERA_TASK_PROCESSES", 4096),  # of a task, with threads; 0 = no limit
    "networks": env_bool("TESSERA_TASK_NETWORKS", True),  # of jobs' own, where pasta is; 0: they share the machine's
    "private": env_list("TESSERA_JOBS_PRIVATE"),
    "images_mib": env_int("TESSERA_IMAGES_MIB", 102_400),  # of images; the least recently used go first; 0 = none
    "registry_ca": env_text("TESSERA_REGISTRY_CA"),
    "registry_plain": env_list("TESSERA_REGISTRY_PLAIN"),
}

IN_CONTAINERS = TESSERA_RUNTIME.startswith("runtimes.kubernetes.")
TESSERA_RUNTIME_OPTIONS = KUBERNETES_OPTIONS if IN_CONTAINERS else LOCAL_OPTIONS

# The default notebook image, with JupyterLab. "": the environment prepared here.
TESSERA_NOTEBOOK_IMAGE = env_text("TESSERA_NOTEBOOK_IMAGE", str(KUBERNETES_OPTIONS["image"]) if IN_CONTAINERS else "")

# The runtime's other half, for the web process: terminal, SSH, notebook and port of a task.
TESSERA_ACCESS = env_text(
    "TESSERA_ACCESS",
    "runtimes.kubernetes.access.pod_access.KubernetesAccess"
    if TESSERA_RUNTIME.startswith("runtimes.kubernetes.")
    else "runtimes.local.access.access.LocalAccess",
)

# The SSH gateway in the web process; port 0 = none. Its host key is in TESSERA_DATA.
TESSERA_SSH_HOST = env_text("TESSERA_SSH_HOST", "127.0.0.1")
TESSERA_SSH_PORT = env_int("TESSERA_SSH_PORT", 0)

# Functions that get new events in their transaction: the apps of these functions stand above events.
TESSERA_EVENT_LISTENERS = ["webhooks.delivery_queue.queue_deliveries"]

# Private networks that webhooks may reach, such as 10.20.0.0/16. Embedded, this machine: its users run programs here.
LOOPBACK = "127.0.0.0/8,::1/128"
TESSERA_WEBHOOK_PRIVATE = env_list("TESSERA_WEBHOOK_PRIVATE", LOOPBACK if TESSERA_EMBEDDED else "")

# Any image, or only the catalogue's; and how registries are asked for digests: private networks that may be reached, a
# file of further CA certificates, hosts without TLS.
TESSERA_IMAGES = env_one_of("TESSERA_IMAGES", "any", "catalogue")
TESSERA_PIN_IMAGES = env_bool("TESSERA_PIN_IMAGES", True)  # 0: jobs keep tags
TESSERA_REGISTRY_PRIVATE = env_list("TESSERA_REGISTRY_PRIVATE", LOOPBACK if TESSERA_EMBEDDED else "")
TESSERA_REGISTRY_CA = env_text("TESSERA_REGISTRY_CA")
TESSERA_REGISTRY_PLAIN = env_list("TESSERA_REGISTRY_PLAIN")

# How Git servers are asked which commit a branch is: private networks that may be reached, further CA certificates.
TESSERA_GIT_PRIVATE = env_list("TESSERA_GIT_PRIVATE", LOOPBACK if TESSERA_EMBEDDED else "")
TESSERA_GIT_CA = env_text("TESSERA_GIT_CA")

# API calls of one person, by all tokens and sessions together, or of one agent: (count, seconds); 0 = no limit.
TESSERA_RATES = {
    "calls": (env_int("TESSERA_RATE_CALLS", 200), 10),
    "submits": (env_int("TESSERA_RATE_SUBMITS", 60), 60),
    "plans": (env_int("TESSERA_RATE_PLANS", 30), 60),  # each simulates the queue for up to two seconds
    "sends": (env_int("TESSERA_RATE_SENDS", 60), 60),  # webhook tests and repeats
}
TESSERA_STREAMS = env_int("TESSERA_STREAMS", 10)  # event streams per person and web process

# Mail: SMTP with a host; embedded, files in <data>/mail; else none.
TESSERA_MAIL_HOST = env_text("TESSERA_MAIL_HOST")
TESSERA_MAIL = bool(TESSERA_MAIL_HOST) or TESSERA_EMBEDDED
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if TESSERA_MAIL_HOST else 'filebased'}.EmailBackend"
EMAIL_FILE_PATH = TESSERA_DATA / "mail"
EMAIL_HOST = TESSERA_MAIL_HOST
EMAIL_PORT = env_int("TESSERA_MAIL_PORT", 25)
EMAIL_HOST_USER = env_text("TESSERA_MAIL_USER")
EMAIL_HOST_PASSWORD = env_secret("TESSERA_MAIL_PASSWORD") if EMAIL_HOST_USER else ""
EMAIL_USE_TLS = env_bool("TESSERA_MAIL_TLS")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env_text("TESSERA_MAIL_FROM", "tessera@localhost")

# uids and gids of new people and teams on files; an admin may set others to match NFS or LDAP.
TESSERA_MOST_TOKENS = env_int("TESSERA_MOST_TOKENS", 100)  # live ones, of a person
TESSERA_UID_RANGE = (env_int("TESSERA_UID_MIN", 20_000), env_int("TESSERA_UID_MAX", 59_999))
TESSERA_GID_RANGE = (env_int("TESSERA_GID_MIN", 20_000), env_int("TESSERA_GID_MAX", 59_999))

# What people outside a team see of whose its work is: team and owner (open), the team (team), or neither (private).
TESSERA_VISIBILITY = env_one_of("TESSERA_VISIBILITY", "open", "team", "private")

SECRET_KEY = env_secret("TESSERA_SECRET_KEY")
DEBUG = False
ALLOWED_HOSTS = env_list("TESSERA_HOSTS", "localhost,127.0.0.1,[::1]")
SECURE = TESSERA_PUBLIC_URL.startswith("https://")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "portal.apps.ConsoleConfig",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "config.apps.WiringConfig",
    "events",
    "accounts",
    "cluster",
    "webhooks",
    "secret_store",
    "quotas",
    "files",
    "images",
    "datasets",
    "jobs",
    "job_templates",
    "reported_numbers",
    "notebooks",
    "services",
    "sharing",
    "schedules",
    "monitoring",
    "scheduler",
    "portal.apps.PortalConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "portal.middleware.LocalhostRedirectMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "portal.middleware.SecurityHeadersMiddleware",
    "portal.middleware.SameOriginMiddleware",
    "portal.health.HealthMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.middleware.OriginMiddleware",
    "portal.middleware.LookMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "portal.middleware.ErrorPagesMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.pages.frame.look",
            ],
        },
    },
]

# A directory as host is a unix socket. The web process has a pool, workers one connection each.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": env_text("PGDATABASE", "tessera"),
        "USER": env_text("PGUSER", "tessera"),
        "PASSWORD": env_text("PGPASSWORD"),
        "HOST": env_text("PGHOST", str(TESSERA_RUN)),
        "PORT": env_text("PGPORT"),
        "CONN_HEALTH_CHECKS": True,  # so that a restart of the server fails no request
        **(
            {"OPTIONS": {"pool": {"min_size": 2, "max_size": 20, "timeout": 10}}}
            if TESSERA_ROLE == "web"
            else {"CONN_MAX_AGE": None}
        ),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Broker, channels and cache: a unix socket embedded, else a URL. Its data may be lost at any time.
VALKEY_SOCKET = env_text("TESSERA_VALKEY_SOCK", str(TESSERA_RUN / "valkey.sock"))
VALKEY_URL = env_text("TESSERA_VALKEY_URL")
VALKEY_DB = env_int("TESSERA_VALKEY_DB", 0)
CELERY_BROKER_URL = (
    f"{VALKEY_URL}/{VALKEY_DB}" if VALKEY_URL else f"redis+socket://{VALKEY_SOCKET}?virtual_host={VALKEY_DB}"
)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [VALKEY_URL or f"unix://{VALKEY_SOCKET}?db={VALKEY_DB}"], "prefix": f"tessera{VALKEY_DB}"},
    }
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": VALKEY_URL or f"unix://{VALKEY_SOCKET}?db={VALKEY_DB}",
        "KEY_PREFIX": "cache",
    }
}

# Accounts and sessions.
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["accounts.backends.PasswordBackend"]
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "home"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
SESSION_COOKIE_NAME = "__Host-tessera" if SECURE else "tessera"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = SECURE
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_USE_SESSIONS = True
CSRF_FAILURE_VIEW = "portal.error_pages.csrf_failure"
CSRF_TRUSTED_ORIGINS = [TESSERA_PUBLIC_URL]
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if SECURE else 0
X_FRAME_OPTIONS = "DENY"

# Request limits.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
CODE_MAX_BYTES = 64 * 1024 * 1024

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [ROOT / "locale"]
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

HELP_SITE = ROOT / ".site"  # bin/docs builds it
STATIC_URL = "/static/"
STATICFILES_DIRS = [ROOT / "static"]
STATIC_BUILT = env_bool("TESSERA_STATIC_BUILT")
STATIC_ROOT = ROOT / "staticfiles" if STATIC_BUILT else None
WHITENOISE_USE_FINDERS = not STATIC_BUILT
WHITENOISE_AUTOREFRESH = False
if STATIC_BUILT:
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.authentication.TokenAuthentication",
        "portal.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["portal.api.permissions.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "portal.api.schema.Schema",
    "EXCEPTION_HANDLER": "portal.api.http.problems.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tessera API",
    "DESCRIPTION": "Jobs, pools, quotas and tokens of a Tessera installation.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SCHEMA_PATH_PREFIX_TRIM": False,
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "portal.api.schema.add_job_file"],
    "ENUM_NAME_OVERRIDES": {"HighPriorityEnum": "cluster.models.HighPriority"},
}

# Celery: short idempotent tasks, JSON, no results.
TESSERA_ALIVE = env_text("TESSERA_ALIVE")  # heartbeat file of workers and beat, "" = none
CELERY_BEAT_SCHEDULER = "config.heartbeat.AliveBeat"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_SOFT_TIME_LIMIT = 60
CELERY_TASK_TIME_LIMIT = 90
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 600,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "retry_on_timeout": True,
    "health_check_interval": 10,
    "max_retries": 0,
}
# Off: nobody uses it, and with redis-py 8 its listener may hang for ever after the broker connection broke, reading
# from the new connection what only the old one announced.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_PUBLISH_RETRY = False
CELERY_DB_REUSE_MAX = 1000
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env_text("TESSERA_LOG_LEVEL", "WARNING")},
    "loggers": {"tessera": {"level": "INFO"}, "django.request": {"level": "ERROR"}},
}
