"""The TLS settings of every connection to a provider: read once, since reading the certificates holds up a process for long."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2


@cache
def tls_context() -> ssl.SSLContext:
    """The system's and the package's certificates, without what the environment says."""
    return httpx2.create_ssl_context(trust_env=False)
