"""Production: behind TLS, with every secret from the environment. Passes ``manage.py check --deploy``."""

from django.core.exceptions import ImproperlyConfigured

from agentx.settings.base import *
from agentx.settings.env import data_dir, read

for _name in ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "LLM_BASE_URL", "ALLOWED_HOSTS"):
    if not read(_name):
        raise ImproperlyConfigured(f"{_name} must be set in production")
if read("AGENTX_DEBUG"):
    raise ImproperlyConfigured("AGENTX_DEBUG must be off in production")

STATIC_ROOT = data_dir() / "static"
WHITENOISE_USE_FINDERS = False

SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^api/health$", r"^api/ready$"]  # probes inside the cluster speak plain HTTP
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
