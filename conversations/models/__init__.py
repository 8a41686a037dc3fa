"""Tables and constraints. What spans rows lives in services; what reads lives in selectors."""

from conversations.models.conversation import Conversation
from conversations.models.digest import CompactionDigest
from conversations.models.entry import MessageEntry
from conversations.models.epoch import ContextEpoch
from conversations.models.evidence import EvidenceLedger
from conversations.models.message import Message
from conversations.models.model_call import ModelCall
from conversations.models.model_record import ModelRecord
from conversations.models.process import ProcessPresence
from conversations.models.run import Run
from conversations.models.steer import Steer
from conversations.models.tool_set import ToolSet

__all__ = [
    "CompactionDigest",
    "ContextEpoch",
    "Conversation",
    "EvidenceLedger",
    "Message",
    "MessageEntry",
    "ModelCall",
    "ModelRecord",
    "ProcessPresence",
    "Run",
    "Steer",
    "ToolSet",
]
