"""Rules of sweeps: grids and files that cannot be used, and deployments that have no answer."""

from __future__ import annotations

from ..input_rules import OWN
from ..trace import Rule

BAD_GRID = Rule(
    "CG735",
    title="The file of a sweep holds no grid.",
    why="A grid is TOML: [base] with one value an option, [grid] with a list of values an option, [[exclude]].",
    example="[grid] max_num_seqs = 64: a number where a list of them is wanted.",
    instead="Mend the file at the place that the message names; docs/sweep.md has an example.",
    source=OWN,
)
BAD_RECORDS = Rule(
    "CG736",
    title="The output of a sweep cannot be gone on with.",
    why="A sweep adds to the records that its output file has; a file of something else stays as it is.",
    example="--output notes.txt, a file whose first line is no record of a sweep.",
    instead="Name another file; where one line among records was damaged, delete it.",
    source=OWN,
)
NO_ANSWER = Rule(
    "CG737",
    title="A deployment of a sweep has no answer: cgplan failed, or its processes were ended again and again.",
    why="One deployment must not end a sweep of many; a failure of cgplan is a row as a refusal of vLLM is.",
    example="A record with code CG737 and the error in its message.",
    instead="Report it with the deployment; `cgplan plan` with the same options shows the error in full. Where "
    "processes were ended, give fewer --jobs or more memory and start the sweep again: it goes on.",
    source=OWN,
)
NO_CLUSTER = Rule(
    "CG738",
    title="Ray is not installed, or its cluster cannot be used.",
    why="--ray runs the deployments as tasks of a Ray cluster whose nodes have the same cgplan.",
    example="--ray 10.0.0.1:6379 without the package ray.",
    instead="Install cgplan[ray], give the address of a running cluster, or `local`.",
    source=OWN,
)
NO_SUCH_OPTION = Rule(
    "CG739",
    title="The release of vLLM does not have an option of the deployment.",
    why="Its parser ends the start at an option that it does not know.",
    example="max_num_active_seqs with 0.30.0: it came with 0.31.",
    instead="Leave the option out for these releases with an [[exclude]], or sweep later ones.",
    source=OWN,
)
