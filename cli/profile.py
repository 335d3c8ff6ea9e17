"""`cgplan profile`: capture CUDA graphs on a GPU, measure what they take and what they gain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeAlias

import typer

from cgplan.errors import InputError

from .decorate import with_deployment
from .options import DeploymentOptions, LaunchOption
from .output_options import OUTPUT
from .pasted import pasted
from .request import Asked, request_of

if TYPE_CHECKING:
    from cgplan.memory.profile.descriptors import Descriptor
    from cgplan.memory.profile.measure import Measured
    from cgplan.memory.profile.sampling import Sample
    from cgplan.resolve import Resolution

EPILOG = """\
Examples:
  cgplan profile --model Qwen/Qwen3-8B
  cgplan profile --model Qwen/Qwen3-8B --gpu h100 --dry-run
  cgplan profile --model meta-llama/Llama-3.1-8B-Instruct -tp 2 --sample all --json profile.json
  cgplan profile --engine vllm --model ./my-model --json profile.json
  cgplan profile --engine callable --target mymodule:make_step

Side effects: loads random weights (with --real-weights the checkpoint) on the GPU for as long as it runs; --json
writes a file. With --dry-run nothing is loaded.

Exit codes:
  0  measured; with --dry-run: said
  1  it stopped early; what was measured is shown and marked
  2  bad usage or input, no GPU, no torch, or too little memory; with --dry-run: of the GPU in the title
"""
HOW = "Profile"

_Text = Optional[str]  # noqa: UP045


def _how(flag: str, help: str, metavar: str, panel: str = HOW) -> Any:
    return typer.Option(flag, metavar=metavar, help=help, rich_help_panel=panel, show_default=True)


@with_deployment(
    helps={
        "gpu": "The GPU that is here; with --dry-run any of `cgplan gpus`. Default: the one here, else H100 80GB.",
        "vllm": "Release whose rules are taken. Default: the installed one with --engine vllm, else the newest known.",
    }
)
def command(
    options: DeploymentOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    engine: Annotated[
        str, _how("--engine", "synthetic (a decoder of the model's shape), vllm (installed here), callable.", "NAME")
    ] = "synthetic",
    target: Annotated[_Text, _how("--target", "Of --engine callable: what makes the step.", "MODULE:FACTORY")] = None,
    sample: Annotated[
        str, _how("--sample", "two (vLLM's rule), auto (a quarter of the graphs), all (the truth).", "WHICH")
    ] = "auto",
    times: Annotated[
        _Text, _how("--times", "Batch sizes to time, e.g. 1,8,64; none: no timing. Default: ten.", "SIZES")
    ] = None,
    device: Annotated[str, _how("--device", "Which GPU of this machine.", "N")] = "0",
    real_weights: Annotated[
        bool,
        typer.Option("--real-weights", help="Of --engine vllm: load the checkpoint.", rich_help_panel=HOW),
    ] = False,
    lm_head: Annotated[
        bool,
        typer.Option(
            "--lm-head", help="Of --engine synthetic: with the output head in the graphs.", rich_help_panel=HOW
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Measure nothing: the graphs, the memory, does it fit.", rich_help_panel=HOW),
    ] = False,
    json: Annotated[
        _Text,
        _how("--json", "Write the record, which `plan --profile` reads; - is stdout.", "FILE", OUTPUT),
    ] = None,
) -> int:
    """Capture CUDA graphs on a GPU: what they take, what vLLM's two-sample rule would say, and what they gain in time.

    The graphs are those that `cgplan resolve` finds for the same options. Needs the extra `profile` (torch).
    """
    from . import profile_checks as checks

    checks.check_engine(engine, sample, target, real_weights=real_weights, lm_head=lm_head)
    index = checks.gpu_index(device)
    if json is not None and json != "-":
        from .output_file import check_writable

        check_writable(Path(json), "--json")  # not after minutes of measuring
    remarks: tuple[str, ...] = ()
    if engine == "vllm" and dry_run:
        remarks = checks.release_of_dry_run(options)
    elif engine == "vllm":
        checks.take_installed_release(options)
    asked = request_of(options, pasted(context), launch)
    run = _Run(options, asked, engine, target, sample, index, real_weights, lm_head)
    most = run.resolution.max_num_batched_tokens if engine != "callable" else None
    sizes = checks.sizes_to_time(times, run.every, run.sample, most)
    if dry_run:
        return run.dry(json, sizes, remarks)
    return run.measured(sizes, json)


_Found: TypeAlias = "tuple[list[Measured], dict[str, Any] | None, tuple[str, ...], dict[str, Any]]"
"""What the ranks measured, vLLM's own figures, notes, and what the machine's record says of the engine."""


class _Run:
    """One profile: the graphs, and how they are measured."""

    def __init__(
        self,
        options: DeploymentOptions,
        asked: Asked,
        engine: str,
        target: str | None,
        sample: str,
        device: int,
        real_weights: bool,
        lm_head: bool,
    ) -> None:
        from cgplan import resolve
        from cgplan.memory.profile.descriptors import descriptors_of
        from cgplan.memory.profile.sampling import chosen
        from cgplan.vocabulary import CUDAGraphMode

        from . import profile_checks as checks

        self.options, self.asked, self.engine, self.target = options, asked, engine, target
        self.device, self.real_weights, self.lm_head = device, real_weights, lm_head
        self.memory = checks.memory_of_line(options)
        self.sample: Sample = sample  # type: ignore[assignment]
        self.resolution: Resolution = resolve(asked.deployment)
        every = descriptors_of(self.resolution)
        if engine == "callable":
            every = tuple(one for one in every if one.mode is CUDAGraphMode.FULL) or every
        self.every: tuple[Descriptor, ...] = every
        self.chosen = chosen(self.every, self.sample)
        if not self.every:
            raise InputError(
                f"these options capture no CUDA graphs (mode {self.resolution.cudagraph_mode})",
                code="CG998",
                where="cgplan profile",
                fix="`cgplan resolve` with the same options says why",
            )
        if engine == "vllm":
            self._check_vllm()

    def _check_vllm(self) -> None:
        """What vLLM would not be started with is said before a GPU is asked for."""
        from cgplan.memory.profile.vllm_arguments import arguments_of
        from cgplan.memory.profile.vllm_engine import check_release

        check_release(self.resolution.vllm_version)
        arguments_of(self.asked.deployment, self._model_id())

    def dry(self, path: str | None, sizes: tuple[int, ...] = (), remarks: tuple[str, ...] = ()) -> int:
        """Say what would be done. Status 2 where the GPU has too little memory."""
        from cgplan.memory.profile.needs import needs
        from cgplan.report.profile_text import show_dry_run

        found = needs(
            self.asked.deployment, self.resolution, self.every, self.chosen, self.engine, self.lm_head,
            times=sizes, flags=self.memory,
        )  # fmt: skip
        found = found.with_remarks(remarks)
        if path is not None:
            import json

            asked = {
                "model": self.asked.model or None,
                "target": self.target,
                "layout": self.asked.layout or None,
                "vllm_version": self.resolution.vllm_version,
                "sample": self.sample,
            }
            said = {"assumptions": list(self.asked.assumptions), "not_modelled": list(self.asked.ignored)}
            self._write(path, json.dumps({**found.as_dict(), **asked, **said}) + "\n")
        if path != "-":
            show_dry_run(found, self._title(), self.sample, self.asked.assumptions)
        return 2 if found.fits == "no" else 0

    def measured(self, sizes: tuple[int, ...], path: str | None) -> int:
        """Measure, show, write. Status 1 where it stopped early."""
        import datetime

        from cgplan.memory.profile import device as devices
        from cgplan.memory.profile.result import document, text
        from cgplan.report.profile_text import Progress, show_profile

        from .profile_checks import kept

        if self.engine == "synthetic":
            from cgplan.memory.profile.synthetic.shape import shape_of

            shape_of(self.asked.deployment, 1)  # what cannot be built is said before a GPU is asked for
        here = devices.look(self.device)
        self._check_gpu(here.name)
        with Progress(len(self.chosen)) as progress:
            ranks, engine_graphs, notes, fingerprint = self._measure(here, sizes, progress.tell)
        if self._is_second():
            return int(any(one.stopped for one in ranks))
        machine = {
            "gpu": here.name,
            "total_bytes": here.total_bytes,
            "driver": here.driver,
            "torch": here.torch,
            "cuda": here.cuda,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            **fingerprint,
        }
        made = document(
            self.asked.deployment,
            self.resolution,
            self.every,
            ranks,
            machine=machine,
            sample=self.sample,
            source=f"cgplan profile, engine {self.engine}, {here.name}, {machine['date'][:10]}",
            workspace_bytes=self._workspace() if self.engine == "synthetic" else None,
            engine_graphs=engine_graphs,
            notes=(*here.notes, *notes),
        )
        written, lost = text(made), None
        try:
            if path is not None:
                self._write(path, written)
        except InputError as error:
            lost, path = error, kept(written, error)
        if path != "-":
            show_profile(made, self._title(), self._worth(made))
        if lost is not None:
            raise lost
        return int(not made["profile"]["complete"])

    def _is_second(self) -> bool:
        """Of torchrun's ranks the first speaks for all."""
        from cgplan.memory.profile.ranks import under_torchrun

        place = under_torchrun()
        return place is not None and place[0] > 0 and self.asked.deployment.tensor_parallel_size > 1

    def _check_gpu(self, name: str) -> None:
        """The record is of the GPU that it was measured on."""
        from cgplan.releases.gpus import known_as

        named = self.asked.deployment.gpu.name
        known = known_as(name)
        if named not in (name, known.name if known is not None else None):
            raise InputError(
                f"--gpu says {named}, and this is {name}",
                code="CG991",
                where="--gpu",
                fix="leave it out; `cgplan plan --gpu` plans for another GPU",
            )

    def _measure(self, here: Any, sizes: tuple[int, ...], tell: Any) -> _Found:
        from cgplan.memory.profile.measure import measure

        if self.engine == "callable":
            from cgplan.memory.profile.callable_engine import CallableEngine, load

            own = CallableEngine(load(self.target or ""), self.device)
            found = measure(own, self.chosen, sizes, tell)
            return [found], None, (), own.fingerprint()
        if self.engine == "vllm":
            return self._of_vllm(sizes, tell)
        return self._synthetic(here, sizes, tell)

    def _synthetic(self, here: Any, sizes: tuple[int, ...], tell: Any) -> _Found:
        from cgplan.memory.profile import ranks
        from cgplan.memory.profile.device import check_room
        from cgplan.memory.profile.synthetic.engine import SyntheticEngine
        from cgplan.memory.profile.synthetic.shape import shape_of

        largest = max([one.num_tokens for one in self.every] + list(sizes))
        shape, notes = shape_of(self.asked.deployment, largest, self.lm_head)
        work = ranks.Work(shape, notes, self.chosen, sizes)
        engine = SyntheticEngine(shape, notes, self.device)
        check_room(here, engine.needs_bytes())
        fingerprint = engine.fingerprint()
        if ranks.under_torchrun() is not None and shape.ranks > 1:
            found = ranks.join(work, tell)
        elif shape.ranks > 1:
            found = ranks.spawn(work, tell)
        else:
            found = [ranks.measure_one(work, self.device, tell)]
        own = found[0].prepared.notes if found[0].prepared is not None else notes
        return found, None, own, fingerprint

    def _of_vllm(self, sizes: tuple[int, ...], tell: Any) -> _Found:
        from cgplan.memory.profile.measure import measure
        from cgplan.memory.profile.vllm_arguments import arguments_of
        from cgplan.memory.profile.vllm_engine import VllmEngine

        model, arguments, env = arguments_of(self.asked.deployment, self._model_id(), self.resolution)
        if self.memory.utilization is not None:
            arguments["gpu_memory_utilization"] = self.memory.utilization
        if self.memory.kv_cache_bytes:
            arguments["kv_cache_memory_bytes"] = self.memory.kv_cache_bytes
        engine = VllmEngine(model, arguments, env, not self.real_weights)
        found = measure(engine, self.chosen, sizes, tell)
        notes = found.prepared.notes if found.prepared is not None else ()
        return [found], engine.own_figures(), notes, engine.fingerprint()

    def _workspace(self) -> int:
        from cgplan.memory.graphs.memory import predict_graph_memory

        return predict_graph_memory(self.asked.deployment, self.resolution).workspace.best

    def _worth(self, made: dict[str, Any]) -> Any:
        """What each answer would leave of the KV cache, where it can be planned."""
        from cgplan.errors import CgplanError
        from cgplan.memory.profile.worth import left_by

        try:
            return left_by(self.asked.deployment, made)
        except CgplanError as error:
            return str(error)

    def _model_id(self) -> str | None:
        """The model as vLLM takes it: of the options, else of the line or file."""
        launch = self.options.asked
        if launch is not None and launch.served is not None and self.options.model is None:
            named = launch.served.model
            return named.name if named is not None else self.asked.deployment.model.name
        return self.options.model or self.options.model_tag

    def _title(self) -> str:
        layout = f", {self.asked.layout}" if self.asked.layout else ""
        what = self.target if self.engine == "callable" else self.asked.model or "a dense 8B decoder"
        text = f"{what} on {self.asked.gpu}{layout}, vLLM {self.resolution.vllm_version}"
        return "".join(c if c.isprintable() else "?" for c in text)

    def _write(self, path: str, content: str) -> None:
        if path == "-":
            print(content, end="")
            return
        from .output_file import write_whole

        write_whole(Path(path), content)
