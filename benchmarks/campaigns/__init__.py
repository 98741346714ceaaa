"""A campaign: a table of students of one teacher, every cell a JSON that one command makes (`benchmarks/campaign.py`)."""
