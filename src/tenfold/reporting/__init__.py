"""What is told about models: the paper's tables recomputed, and reports of our own."""
