"""Write planner/releases/architecture_releases.toml: the release in which an architecture came, where not the first.

    python tools/build_architecture_releases.py DIRECTORY

DIRECTORY holds unpacked source distributions, vllm-RELEASE each. Read are the keys of the dictionaries in
vllm/model_executor/models/registry.py, which is parsed, never run.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path

from cgplan.releases import SUPPORTED

TARGET = Path(__file__).parents[1] / "planner" / "releases" / "architecture_releases.toml"
REGISTRY = "vllm/model_executor/models/registry.py"


def architectures(source: str) -> set[str]:
    """Keys of the registry's dictionaries whose names end in MODELS."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        value = getattr(node, "value", None)
        if any(name.endswith("MODELS") for name in names) and isinstance(value, ast.Dict):
            found |= {key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return found


def main(directory: Path) -> None:
    seen = architectures((directory / f"vllm-{SUPPORTED[0]}" / REGISTRY).read_text(encoding="utf-8"))
    lines = [
        "# The release in which vLLM's registry first held an architecture, where not the first release known.",
        f"# Written by tools/build_architecture_releases.py from {REGISTRY} of each release.",
        "",
        "[first]",
    ]
    for release in SUPPORTED[1:]:
        now = architectures((directory / f"vllm-{release}" / REGISTRY).read_text(encoding="utf-8"))
        new = sorted(now - seen)
        seen |= now
        if new:
            text = "\n".join(textwrap.wrap(" ".join(new), 110))
            lines.append(f"\"{release}\" = '''\n{text}\n'''")
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
