"""One module a subject; ``base`` joins them."""
