"""The campaign behind docs/results.md: teachers, students, scores, each cell by one command that goes on where it was stopped.

    python benchmarks/campaign.py list     CAMPAIGN                what there is to do, and what is done
    python benchmarks/campaign.py teachers CAMPAIGN [--tasks ...]  teachers, chosen on a slice of train, scored on dev
    python benchmarks/campaign.py general  CAMPAIGN [--rows ...]   the general stage, all students in one process
    python benchmarks/campaign.py tasks    CAMPAIGN [--rows ...]   the task stages, scored on dev
    python benchmarks/campaign.py search   CAMPAIGN                one factor at a time, scored on a slice of train
    python benchmarks/campaign.py speed    CAMPAIGN [--rows ...]   throughput against the original
    python benchmarks/campaign.py summary | table | plot           summary.json, docs/results.md and its curves
    python benchmarks/campaign.py pack CAMPAIGN OUT | unpack TREE  a tree for a machine with nothing to download

CAMPAIGN is a file or the name of one in benchmarks/campaigns. `--minutes N` ends any of them after so much wall clock, with
everything saved. What is done is passed over.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from campaigns.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__ or ""))
