"""AgentX: a self-hosted assistant whose long conversations lose nothing in silence."""

__version__ = "0.1.0"
