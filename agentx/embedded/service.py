"""What a part of the local stack is: something that can be spawned, asked whether it is ready, and stopped."""

from __future__ import annotations

import errno
import os
import random
import secrets
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from agentx.embedded.errors import ConfigurationProblem, ServiceFailed
from agentx.embedded.process import Child, read_log_tail

# Below the range from which the kernel picks ports for outgoing connections (32768 and up on Linux): otherwise a client
# that reconnects while the server is away can take the server's own port, or even connect to itself.
_PORTS = range(20_000, 32_000)


class Service(Protocol):
    """A part of the stack. ``name`` is its key in files, ``label`` what people read ("PostgreSQL 18.4")."""

    name: str
    label: str
    start_seconds: float  # longest wait for readiness
    stop_seconds: float  # longest wait for an orderly end

    @property
    def child(self) -> Child: ...

    @property
    def url(self) -> str:
        """Where clients find it; stable for the life of this object."""
        ...

    def prepare(self) -> None:
        """Create or check what must exist before the first start; ends a leftover of a killed run."""
        ...

    def spawn(self) -> None:
        """Start the process and return at once."""
        ...

    def is_ready(self) -> bool:
        """One quick look (at most a second or two) whether clients can use it."""
        ...

    def clean_up(self) -> None:
        """Remove what only makes sense while it runs; called after it has ended."""
        ...


class EmbeddedService(ABC):
    """What the three embedded services share: start and wait, stop, and use as a context manager.

    ``runtime_dir`` (default: beside the data) holds the pid file and whatever else only matters while it runs.
    """

    name: str
    label: str
    version: str = ""  # known once it was ready
    start_seconds: float = 60.0
    stop_seconds: float = 20.0

    def __init__(self, *, data_dir: Path, runtime_dir: Path | None, log_file: Path | None) -> None:
        self.data_dir = data_dir.absolute()
        self.runtime_dir = (runtime_dir or data_dir.with_name(f"{data_dir.name}-run")).absolute()
        self.log_file = log_file or self.runtime_dir / f"{self.name}.log"
        self._pid_file = self.runtime_dir / f"{self.name}.pid"
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        if self._child is None:
            self._child = self._build_child()
        return self._child

    @abstractmethod
    def _build_child(self) -> Child: ...

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._child is None else self._child.pid

    def alive(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.is_running()

    @abstractmethod
    def prepare(self) -> None: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    def spawn(self) -> None:
        self.child.spawn()

    def start(self) -> str:
        """Start and wait until clients can use it. Returns :attr:`url`; raises :class:`ServiceFailed`."""
        self.prepare()
        self.spawn()
        try:
            wait_until_ready(self)
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """End it in good order; killed only when it does not end within ``stop_seconds``."""
        if self._child is not None:
            self._child.stop(seconds=self.stop_seconds)
        self.clean_up()

    def clean_up(self) -> None:  # noqa: B027 - a service may have nothing to remove
        """Remove what only makes sense while it runs."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def wait_until_ready(service: Service, *, tick: Callable[[], None] | None = None) -> None:
    """Block until ``service`` is ready. ``tick`` runs about every 50 ms and may raise to give up.

    Raises :class:`ServiceFailed` with the end of the log when it ends or takes longer than its ``start_seconds``.
    """
    deadline = time.monotonic() + service.start_seconds
    while not service.is_ready():
        if not service.child.is_running():
            raise start_failure(service, f"ended while starting ({service.child.exit_status()})")
        if time.monotonic() > deadline:
            raise start_failure(service, f"was not ready within {service.start_seconds:.0f} s")
        if tick is not None:
            tick()
        time.sleep(0.05)


def start_failure(service: Service, what: str) -> ServiceFailed:
    """The error for a service that did not come up, with the reason its log gives."""
    log = service.child.program.log_file
    tail = read_log_tail(log)
    if any("No space left on device" in line for line in tail):
        what = f"{what}: no space left on the disk"
    return ServiceFailed(f"{service.label} {what}; its log is {log}", log_tail=tail)


def find_free_port(*, host: str = "127.0.0.1") -> int:
    """A TCP port on ``host`` that is free now and is not one the kernel hands to clients."""
    for _ in range(200):
        port = random.choice(_PORTS)
        if find_port_problem(port=port, host=host) == 0:
            return port
    raise ServiceFailed("no free TCP port was found between 20000 and 32000")


def find_port_problem(*, port: int, host: str) -> int:
    """0 when a server could listen there now, else the error number; connections in TIME_WAIT do not count."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)  # a bind alone may succeed beside a socket that is bound and not yet listening
        except OSError as error:  # gaierror, for a name nobody knows, has negative numbers of its own
            return error.errno or errno.EINVAL
    return 0


def find_package(package: str, *, holds: str, variable: str) -> Path:
    """The file or folder ``holds`` inside an installed ``package``; ``variable`` is what makes it unnecessary."""
    found = find_spec(package)
    path = Path(found.origin).parent / holds if found is not None and found.origin else None
    if path is None or not path.exists():
        raise ConfigurationProblem(
            f"the Python package {package} is not installed: run `make setup`, or set {variable} to a server of yours"
        )
    return path


def make_private_folder(path: Path, *, passable: bool = False) -> Path:
    """Create ``path`` (and parents) for this user alone; ``passable`` lets others through to what they may open."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o711 if passable else 0o700)
    return path


def read_or_create_secret(path: Path) -> str:
    """The secret in ``path``; 43 URL-safe random characters, mode 0600, are written there when there is none."""
    with suppress(FileNotFoundError):
        found = path.read_text().strip()
        if found:
            return found
    secret = secrets.token_urlsafe(32)
    write_private(path, secret + "\n")
    return secret


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` in one step with ``text``, readable by this user alone from the first byte."""
    building = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)
