"""What several benchmarks are made of: texts, stored conversations, other libraries to be measured beside."""
