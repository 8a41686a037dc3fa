"""One person's machine: plain HTTP on loopback. This is what ``make run`` and the commands beside it use."""

from agentx.settings.base import *
from agentx.settings.env import read

DEBUG = read("AGENTX_DEBUG")
# Only for commands without a running `make run`, which generates a real key; nothing is served with this one.
SECRET_KEY = read("SECRET_KEY") or "not-secret-and-never-served"
