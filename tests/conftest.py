"""Settings of all tests: hypothesis profiles, and the way to tools/."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("dev", max_examples=150, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile(
    "ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE, database=None
)
settings.register_profile("deep", max_examples=1500, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
