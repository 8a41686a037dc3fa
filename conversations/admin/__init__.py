"""The operator's view, one module a subject. Django finds the pages by importing this package."""

from conversations.admin.context import CompactionDigestAdmin, ContextEpochAdmin, EvidenceLedgerAdmin
from conversations.admin.conversation import ConversationAdmin
from conversations.admin.model import ModelRecordAdmin
from conversations.admin.run import ProcessPresenceAdmin, RunAdmin
from conversations.admin.usage import ModelCallAdmin

__all__ = [
    "CompactionDigestAdmin",
    "ContextEpochAdmin",
    "ConversationAdmin",
    "EvidenceLedgerAdmin",
    "ModelCallAdmin",
    "ModelRecordAdmin",
    "ProcessPresenceAdmin",
    "RunAdmin",
]
