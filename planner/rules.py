"""Every rule there is. A rule puts itself into RULES when its module is imported; this module imports them all."""

from __future__ import annotations

from .trace import RULES, Rule


def all_rules() -> dict[str, Rule]:
    """Every rule by code, in the order of the codes."""
    from . import input_rules, resolve  # noqa: F401
    from .check import families, suppress  # noqa: F401
    from .inputs.vllm_logs import rules as of_reading_logs  # noqa: F401
    from .memory.budget import estimate_rules, rules  # noqa: F401
    from .memory.kv import cache  # noqa: F401
    from .memory.profile import rules as profile_rules  # noqa: F401
    from .report.html import rules as of_reports  # noqa: F401
    from .resolve import memory_deduction, other_backend  # noqa: F401
    from .startup import crash_rules  # noqa: F401
    from .startup import rules as of_logs  # noqa: F401
    from .sweep import rules as of_sweeps  # noqa: F401
    from .workload import rules as of_workloads  # noqa: F401
    from .workload import tune_rules  # noqa: F401

    return dict(sorted(RULES.items()))
