"""What can go wrong before or while the local stack runs, as one sentence and an exit code."""

from __future__ import annotations

from agentx.errors import AgentXError


class EmbeddedError(AgentXError):
    """A part of the local stack failed. ``exit_code`` is what ``manage.py up`` ends with."""

    code = "embedded_failed"
    title = "A part of the local stack failed"
    exit_code = 1


class ConfigurationProblem(EmbeddedError):
    """The machine or the environment must change first: a taken port, no space, a missing package."""

    code = "embedded_configuration"
    title = "This machine is not set up for the local stack"
    exit_code = 2


class FolderLocked(ConfigurationProblem):
    """Another running copy holds the data folder. ``details``: ``pid`` and ``url``, None where unknown."""

    code = "data_folder_locked"
    title = "The data folder is in use by another copy"


class ServiceFailed(EmbeddedError):
    """A service ended, or was not ready in time. ``log_tail``: its last lines, oldest first."""

    code = "service_failed"
    title = "A service did not start"

    def __init__(self, message: str, *, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log_tail = log_tail
