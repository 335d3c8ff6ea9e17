"""From a launch to diagnostics: what will not start, what is ignored in silence, what is slower than asked.

`cgplan.check` names this package and the function alike, as `cgplan.resolve` does.
"""

import shlex
import sys
from collections.abc import Sequence
from types import ModuleType

from ..inputs.launches import launch_of
from ..inputs.launches.asked import NOTHING_SAID, Context, ask
from .diagnostic import ConfigEdit, Diagnostic, Hit, Related, TokenEdit
from .report import Report, check_launch

__all__ = ["ConfigEdit", "Context", "Diagnostic", "Hit", "Related", "Report", "TokenEdit", "check", "check_launch"]


def check(line: str | Sequence[str], context: Context = NOTHING_SAID) -> Report:
    """Check one `vllm serve` command line.

    Args:
        line: as a shell takes it, or its words.
        context: release, GPU, software and model, where they are known.

    Raises:
        InputError: the line starts no vLLM server, or cannot be split.
    """
    words = shlex.split(line) if isinstance(line, str) else line
    return check_launch(ask(launch_of(words), context))


class _CallablePackage(ModuleType):
    def __call__(self, line: str | Sequence[str], context: Context = NOTHING_SAID) -> Report:
        return check(line, context)

    __call__.__doc__ = check.__doc__


sys.modules[__name__].__class__ = _CallablePackage
