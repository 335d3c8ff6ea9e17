"""Two releases of vLLM compared: what changes for one deployment, and what changed in the rules.

Pure, as the core is: `compare` resolves a deployment at every release between the two and says what differs, in which
release, and which rule did it; `release_notes` needs no deployment. `report/diff.py` shows both.
"""

from .changes import Cause, Change, Comparison, Note, Step
from .comparison import codes_between, compare
from .notes import release_notes
from .path import releases_between
from .snapshot import Snapshot, snapshot

__all__ = [
    "Cause",
    "Change",
    "Comparison",
    "Note",
    "Snapshot",
    "Step",
    "codes_between",
    "compare",
    "release_notes",
    "releases_between",
    "snapshot",
]
