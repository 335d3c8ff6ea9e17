"""`python -m cgplan`."""

from __future__ import annotations

from importlib import import_module

import_module(f"{__package__}.cli.main").main()
