"""Tests: the same real parts with throw-away data, whose addresses the test session puts into the environment."""

from agentx.settings.base import *

SECRET_KEY = "tests-only"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher"
]  # tests do not measure how slow hashing is
