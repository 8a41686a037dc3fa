"""Tables and constraints. What spans rows lives in services; what reads lives in selectors."""

from conversations.models.conversation import Conversation
from conversations.models.message import Message
from conversations.models.process import ProcessPresence
from conversations.models.run import ModelCall, Run

__all__ = ["Conversation", "Message", "ModelCall", "ProcessPresence", "Run"]
