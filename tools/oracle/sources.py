"""How the functions behind cgplan's rules changed from one release to the next.

Bodies are compared without comments, docstrings and log calls, so that what is printed can change an answer.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

# File below the package, and the functions or classes in it that a rule follows.
FOLLOWED: dict[str, tuple[str, ...]] = {
    "config/vllm.py": (
        "__post_init__",
        "_set_cudagraph_sizes",
        "_set_compile_ranges",
        "_set_max_num_scheduled_tokens",
        "_apply_optimization_level_defaults",
        "use_v2_model_runner",
        "_get_v2_model_runner_unsupported_features",
        "OPTIMIZATION_LEVEL_TO_CONFIG",
    ),
    "config/compilation.py": (
        "CUDAGraphMode",
        "CompilationConfig",
        "PassConfig",
    ),
    "config/scheduler.py": ("SchedulerConfig",),
    "config/speculative.py": ("SpeculativeConfig",),
    "config/parallel.py": ("ParallelConfig",),
    "config/lora.py": ("LoRAConfig",),
    "config/attention.py": ("AttentionConfig",),
    "engine/arg_utils.py": (
        "get_batch_defaults",
        "_set_default_max_num_seqs_and_batched_tokens_args",
        "create_engine_config",
    ),
    "model_executor/models/config.py": (),
    "platforms/cuda.py": (
        "check_and_update_config",
        "_get_backend_priorities",
        "get_valid_backends",
        "get_attn_backend_cls",
    ),
    "v1/cudagraph_dispatcher.py": ("CudagraphDispatcher",),
    "v1/attention/backend.py": ("AttentionCGSupport", "validate_configuration"),
    "v1/attention/backends/registry.py": ("AttentionBackendEnum", "MambaAttentionBackendEnum"),
    "v1/worker/gpu_model_runner.py": (
        "_check_and_update_cudagraph_mode",
        "_is_uniform_decode",
        "_determine_batch_execution_and_padding",
    ),
    "v1/worker/gpu/cudagraph_utils.py": (),
    "v1/worker/gpu/lora_utils.py": (),
    "v1/worker/gpu/attn_utils.py": ("get_attn_cg_support",),
    "v1/worker/utils.py": ("get_uniform_decode_token_count", "get_uniform_token_count"),
    "v1/worker/gpu/spec_decode/__init__.py": (),
    "v1/spec_decode/llm_base_proposer.py": ("initialize_cudagraph_keys",),
}
"""No names: every function and class of the file."""

# In each attention backend: what it supports, and at which level.
BACKENDS = "v1/attention/backends"
BACKEND_NAMES = (
    "_cudagraph_support",
    "get_cudagraph_support",
    "get_flash_attn_version",
    "get_supported_kernel_block_sizes",
    "supported_dtypes",
    "supported_kv_cache_dtypes",
    "supports_compute_capability",
    "supports_combination",
    "supports_kv_cache_dtype",
    "supports_mm_prefix",
    "supports_sink",
    "supports_attn_type",
    "get_supported_head_sizes",
)


def changes(old: Path, new: Path, context: int = 2) -> Iterator[str]:
    """Lines of unified diffs between two unpacked releases, one function after the other."""
    for file, names in _followed(old, new):
        before, after = _bodies(old / "vllm" / file, names), _bodies(new / "vllm" / file, names)
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name, []), after.get(name, [])
            if was != now:
                fate = "new" if not was else "gone" if not now else "changed"
                yield f"==== {file}: {name} ({fate})"
                lines = list(difflib.unified_diff(was, now, n=context, lineterm=""))
                yield from lines[2:]


def _followed(old: Path, new: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from FOLLOWED.items()
    packages = [root / "vllm" for root in (old, new)]
    files = {file.relative_to(root) for root in packages for file in (root / BACKENDS).rglob("*.py")}
    for file in sorted(files):
        yield str(file), BACKEND_NAMES


def _bodies(path: Path, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The definitions asked for, by name: classes, functions, and names that are assigned."""
    if not path.exists():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {name: ast.unparse(_Quiet().visit(node)).splitlines() for node, name in _definitions(tree.body, names)}


def _definitions(body: list[ast.stmt], names: tuple[str, ...], owner: str = "") -> Iterator[tuple[ast.AST, str]]:
    """A class that is not asked for itself is searched for members that are."""
    for node in body:
        name = _name(node)
        if name is None:
            continue
        if not names or name in names:
            yield node, owner + name
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, names, f"{owner}{name}.")


def _name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    return target.id if isinstance(target, ast.Name) else None


class _Quiet(ast.NodeTransformer):
    """Drops docstrings and log calls."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Constant):
            return ast.Pass()
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            owner = value.func.value
            if isinstance(owner, ast.Name) and owner.id == "logger":
                return ast.Pass()
        return node
