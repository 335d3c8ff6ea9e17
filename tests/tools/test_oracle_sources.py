"""The comparison of two releases' sources, on two tiny ones."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

sources: Any = importlib.import_module("oracle.sources")

OLD = '''
class SchedulerConfig:
    """Words."""

    max_num_seqs: int = 128

    def check(self):
        logger.info("checking")
        # a comment
        return self.max_num_seqs > 0
'''


def changed(tmp_path: Path, new: str) -> list[str]:
    for name, text in (("old", OLD), ("new", new)):
        file = tmp_path / name / "vllm" / "config" / "scheduler.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(sources.changes(tmp_path / "old", tmp_path / "new"))


def test_words_comments_and_logs_are_no_change(tmp_path: Path) -> None:
    new = OLD.replace("Words", "Other words").replace("# a comment", "# another").replace("checking", "having a look")
    assert changed(tmp_path, new) == []


def test_a_changed_value_is_shown(tmp_path: Path) -> None:
    lines = changed(tmp_path, OLD.replace("128", "256"))
    assert lines[0] == "==== config/scheduler.py: SchedulerConfig (changed)"
    assert "-    max_num_seqs: int = 128" in lines
    assert "+    max_num_seqs: int = 256" in lines


def test_a_new_and_a_gone_class_are_told(tmp_path: Path) -> None:
    assert "(gone)" in changed(tmp_path, "x = 1\n")[0]
