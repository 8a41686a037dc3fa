"""PostgreSQL through psycopg 3 with its pool."""

from agentx.settings.env import database_config, read

_url = read("DATABASE_URL") or "postgresql://agentx@127.0.0.1:5432/agentx"
DATABASES = {"default": database_config(_url)}
DATABASES["default"]["CONN_HEALTH_CHECKS"] = (
    True  # without it a restarted server costs one error per pooled connection
)
DATABASES["default"]["OPTIONS"] |= {
    # The pool bounds connections, since every HTTP request and every turn may bring a thread of its own.
    # timeout: a caller that cannot get a connection in 3 s gets a 503 instead of a hang.
    "pool": {"min_size": 1, "max_size": read("DATABASE_POOL_SIZE"), "timeout": 3, "max_idle": 60},
    # A database that has vanished from the network must be an error soon; both are ignored on Unix sockets.
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    # lock_timeout: a forgotten transaction elsewhere becomes an error here, not a hang.
    "options": "-c lock_timeout=5000 -c statement_timeout=60000 -c idle_in_transaction_session_timeout=60000",
}
