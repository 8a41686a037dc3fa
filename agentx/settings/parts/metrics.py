"""Figures for Prometheus."""

from agentx.settings.env import data_dir, read

METRICS_DIR = read("AGENTX_METRICS_DIR") or data_dir() / "run" / "metrics"
METRICS_TOKEN = read("METRICS_TOKEN")
