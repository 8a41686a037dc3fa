"""What every process and every environment has in common."""

from agentx.settings.env import data_dir, read
from agentx.settings.parts.apps import *
from agentx.settings.parts.database import *
from agentx.settings.parts.logs import *
from agentx.settings.parts.metrics import *
from agentx.settings.parts.model import *
from agentx.settings.parts.queue import *
from agentx.settings.parts.runs import *
from agentx.settings.parts.tools import *
from agentx.settings.parts.web import *

DATA_DIR = data_dir()
DEBUG = False
SECRET_KEY = read("SECRET_KEY") or ""
