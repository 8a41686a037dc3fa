"""Tests mirror the tree; ``architecture`` holds the rules of the house, ``flows`` and ``faults`` drive real processes."""
