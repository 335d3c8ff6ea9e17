"""From a launch to diagnostics: what will not start, what is ignored in silence, what is slower than asked.

`cgplan.check` names this package and the function alike, as `cgplan.resolve` does.
"""

import sys
from collections.abc import Sequence
from types import ModuleType

from ..errors import InputError
from ..inputs.launches import launch_of, launch_of_text
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
        InputError: the line starts no vLLM server, or several; it cannot be split, or is longer than a script may be.
    """
    if isinstance(line, str):
        return check_launch(ask(launch_of_text(line), context))
    if not isinstance(line, Sequence) or not all(isinstance(word, str) for word in line):
        raise InputError(
            f"a command line is a text or a list of words, not {type(line).__name__}",
            code="CG906",
            where="line",
            fix='cgplan.check("vllm serve MODEL ...")',
        )
    return check_launch(ask(launch_of(line), context))


class _CallablePackage(ModuleType):
    def __call__(self, line: str | Sequence[str], context: Context = NOTHING_SAID) -> Report:
        return check(line, context)

    __call__.__doc__ = check.__doc__


sys.modules[__name__].__class__ = _CallablePackage
