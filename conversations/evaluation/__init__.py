"""Scripted conversations that show what the view keeps and what it costs. No model and no network take part."""
