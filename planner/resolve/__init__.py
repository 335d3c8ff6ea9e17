"""From a Deployment to a Resolution: vLLM's rules for CUDA graphs, in vLLM's order.

`cgplan.resolve` names this package and the function alike: importing any module of the package binds the package to
that name, so the package itself can be called.
"""

import sys
from types import ModuleType

from ..deployment import Deployment
from .graphs import Batch, Dispatch, Graph
from .overrides import NONE, Overrides
from .pipeline import resolve
from .resolution import Resolution

__all__ = ["Batch", "Dispatch", "Graph", "Overrides", "Resolution", "resolve"]


class _CallablePackage(ModuleType):
    def __call__(self, deployment: Deployment, overrides: Overrides = NONE) -> Resolution:
        return resolve(deployment, overrides)

    __call__.__doc__ = resolve.__doc__


sys.modules[__name__].__class__ = _CallablePackage
