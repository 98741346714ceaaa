"""Looking at models: what of a dense one could be compressed (explore), what a compressed one learnt (analyze)."""
