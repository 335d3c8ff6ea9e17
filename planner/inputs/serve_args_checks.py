"""What vLLM checks between its parser and the start: validate_parsed_serve_args, by release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import shorten
from ..releases import holds
from .serve_args_errors import ArgumentRefused

BUILTIN_TEMPLATES = frozenset(
    f"template_{name}.jinja"
    for name in ("basic", "blip2", "chatml", "deepseek_ocr", "deepseek_vl2", "kimi_audio", "minicpmv45")
)

Get = Callable[[str], Any]
"""Reads a setting: what was given, else the default, else None."""


def check_settings(get: Get, release: str, style: str, files: Mapping[str, str] | None, env: Mapping[str, str]) -> None:
    """Refuse what vLLM refuses right after parsing.

    Args:
        get: reads a setting.
        release: of vLLM.
        style: "serve" or "module".
        files: all the files there are, or None where that is not known.
        env: environment variables.

    Raises:
        ArgumentRefused: stage `validate`.
    """
    _check_template(get, release, files)
    _check_grpc_port(get, style, env)
    _check_efforts(get, release)
    if get("enable_auto_tool_choice") and not get("tool_call_parser"):
        raise _refuse("--enable-auto-tool-choice", "needs --tool-call-parser", raised_as="TypeError")
    if get("enable_log_outputs") and not get("enable_log_requests"):
        raise _refuse("--enable-log-outputs", "needs --enable-log-requests", raised_as="TypeError")
    if (get("sse_keep_alive_interval") or 0) < 0:
        raise _refuse("--sse-keep-alive-interval", "cannot be negative; 0 switches it off")
    if get("enable_per_request_metrics") and get("disable_log_stats"):
        raise _refuse("--enable-per-request-metrics", "does not work with --disable-log-stats")
    if get("data_parallel_multi_port_external_lb"):
        _check_multi_port(get)


def _check_template(get: Get, release: str, files: Mapping[str, str] | None) -> None:
    template = get("chat_template")
    if template is None or files is None or any(c in template for c in "{}\n"):
        return
    if template in files or template in BUILTIN_TEMPLATES or template in ("", ".", "/") or _is_folder(template):
        return
    raise _refuse(
        "--chat-template",
        f"{shorten(template, 60)!r} is neither a file nor a template",
        raised_as="VLLMValidationError" if holds(release, "0.30.0") else "ValueError",
    )


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_absolute() and Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _check_grpc_port(get: Get, style: str, env: Mapping[str, str]) -> None:
    port = get("grpc_port")
    if port is None:
        return
    option = "--grpc-port"
    if get("grpc"):
        raise _refuse(option, "does not work with --grpc")
    if env.get("VLLM_USE_RUST_FRONTEND", "0").strip().lower() not in ("1", "true") or style != "serve":
        raise _refuse(option, "needs VLLM_USE_RUST_FRONTEND=1 and `vllm serve`")
    count = get("api_server_count")
    if get("headless") or (count is not None and count <= 0):
        raise _refuse(option, "needs an API server: no --headless, and --api-server-count above 0")
    if get("data_parallel_multi_port_external_lb"):
        raise _refuse(option, "does not work with --data-parallel-multi-port-external-lb")
    if not 0 <= port <= 65535:
        raise _refuse(option, "is not between 0 and 65535")
    if port != 0 and port == get("port") and not get("uds"):
        raise _refuse(option, "is the same as --port")


def _check_efforts(get: Get, release: str) -> None:
    efforts = get("reasoning_effort_map")
    if efforts is None:
        return
    option = "--reasoning-effort-map"
    if not isinstance(efforts, dict) or not all(isinstance(value, str) for value in efforts.values()):
        raise _refuse(option, "has to be an object of texts")
    from .serve_args_flags import flag_table

    known = flag_table(release).words.get("reasoning_efforts", [])
    unknown = sorted(set(efforts) - set(known))
    if unknown:
        raise _refuse(option, f"has the unknown effort {shorten(unknown[0], 40)!r}; known: {', '.join(known)}")


def _check_multi_port(get: Get) -> None:
    option = "--data-parallel-multi-port-external-lb"
    size, local = get("data_parallel_size"), get("data_parallel_size_local")
    if get("grpc") or get("uds") is not None:
        raise _refuse(option, "does not work with --grpc or --uds")
    if bool(get("ssl_keyfile")) != bool(get("ssl_certfile")):
        raise _refuse("--ssl-keyfile", "and --ssl-certfile go together")
    if get("api_server_count") not in (None, 1):
        raise _refuse(option, "needs --api-server-count 1")
    if get("data_parallel_rank") is not None:
        raise _refuse(option, "does not work with --data-parallel-rank")
    if get("data_parallel_external_lb") or get("data_parallel_hybrid_lb"):
        raise _refuse(option, "does not work with another load balancing mode")
    if size < 2:
        raise _refuse(option, "needs --data-parallel-size above 1")
    if local is None or local < 2:
        raise _refuse(option, "needs --data-parallel-size-local of 2 or more")
    if local > size or size % local:
        raise _refuse("--data-parallel-size", f"{size} is no multiple of --data-parallel-size-local {local}")
    start = get("data_parallel_start_rank")
    if start is None:
        start = (get("node_rank") or 0) * local
    if start + local > size:
        raise _refuse(option, "would have ranks beyond --data-parallel-size")
    supervisor, port = get("data_parallel_supervisor_port"), get("port")
    if port <= supervisor <= port + local - 1:
        raise _refuse("--data-parallel-supervisor-port", f"{supervisor} is the port of a rank")


def _refuse(option: str, reason: str, raised_as: str = "ValueError") -> ArgumentRefused:
    return ArgumentRefused(
        f"{option} {reason}",
        "validate",
        option=option,
        raised_as=raised_as,
        stage="validate",
        raised_in="validate_parsed_serve_args",
    )
