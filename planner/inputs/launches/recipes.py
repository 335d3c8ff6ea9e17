"""Recipes of vllm-project/recipes: one YAML file a model, from which its page builds `vllm serve` lines.

The page puts together the arguments of the model, a variant, a strategy, the hardware and features; which of them is
chosen there. Read here are: each variant, each with what the recipe adds on NVIDIA hardware, each feature that is off
until it is chosen, each strategy that the recipe changes, and the commands of the guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...light_dataclass import dataclass
from .image import release_of
from .launch import EnvVariable, Hints, Launch, LaunchToken, Reading, Remark, Source
from .recipe_guide import of_guide
from .yaml_nodes import Mapping, Node, Scalar
from .yaml_nodes import Sequence as Items

MAX_LAUNCHES = 100
"""Servers read from one recipe; the largest known has some 40."""
STRATEGY = "single_node_tp"
"""Strategy of the page where the recipe names none."""
GENERATIONS = {"hopper": ("h100", "h200", "h20"), "blackwell": ("b200", "b300", "gb200", "gb300", "rtx_pro", "dgx_")}
"""Hardware of NVIDIA, by the beginning of its name."""
GPUS = {
    "h100": "h100",
    "h200": "h200",
    "h20": "h20",
    "b200": "b200",
    "b300": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
}
"""Hardware of a recipe by the name of the GPU catalogue."""
_ONLY_BLACKWELL = ("nvfp4", "fp4")
PARALLEL = "--tensor-parallel-size"
_OVERRIDES = "hardware_overrides"


def fits(documents: Sequence[Node]) -> bool:
    """Whether it is a recipe: a mapping with `model.model_id`, and variants or arguments."""
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        return False
    recipe = documents[0]
    named = recipe.at("model", "model_id") is not None
    return named and (recipe.get("variants") is not None or recipe.at("model", "base_args") is not None)


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The servers that the page of a recipe can start, and those of its guide."""
    root = documents[0] if documents else None
    if not isinstance(root, Mapping):
        return Reading()
    if root.get("omni") is not None:
        where = root.key("omni")
        message = "a recipe of vLLM-Omni, whose options are its own"
        return Reading((), (Remark("not_read", message, where.span if where else None),))
    found: list[Launch] = []
    seen: set[tuple[tuple[str, ...], tuple[EnvVariable, ...]]] = set()
    for choice in _choices(_Recipe(root)):
        launch = _launch(choice, source) if len(found) < MAX_LAUNCHES else None
        if launch is not None and (same := (tuple(launch.texts), launch.env)) not in seen:
            seen.add(same)
            found.append(launch)
    remarks = (_size_remark(root),) if found and not any(PARALLEL in one.texts for one in found) else ()
    return Reading((*found, *of_guide(root.get("guide"), source)), remarks)


class _Recipe:
    """The parts of a recipe, missing ones empty."""

    def __init__(self, root: Mapping) -> None:
        self.root = root
        self.variants = _pairs(root.get("variants"))
        self.features = _pairs(root.get("features"))
        self.opt_in = _texts(root.get("opt_in_features"))
        self.strategies = _pairs(root.get("strategy_overrides"))
        strategy = root.get("default_strategy")
        self.strategy = strategy.text if isinstance(strategy, Scalar) else STRATEGY


@dataclass(frozen=True)
class _Choice:
    """What a user of the page chooses."""

    recipe: _Recipe
    variant: str
    label: str
    hardware: str = ""
    feature: str = ""
    mode: str = ""
    strategy: str = ""
    role: str = ""

    @property
    def of_variant(self) -> Node | None:
        return self.recipe.variants.get(self.variant)


def _choices(recipe: _Recipe) -> Iterator[_Choice]:
    for variant in recipe.variants or ("",):
        supported = _texts(_at(recipe.variants.get(variant), "supported_hardware"))
        if supported and not any(_is_nvidia(one) for one in supported):
            continue
        name = f"variant {variant}" if variant else "model"
        plain = _Choice(recipe, variant, name)
        yield plain
        for hardware in _hardware(recipe, variant):
            yield replace(plain, label=f"{name} on {hardware}", hardware=hardware)
    first = "default" if "default" in recipe.variants else next(iter(recipe.variants), "")
    for feature in recipe.opt_in:
        for mode, variant in _modes(recipe, feature, first):
            shown = f"{feature} ({mode})" if mode else feature
            yield _Choice(recipe, variant, f"variant {variant} with {shown}", feature=feature, mode=mode)
    for strategy, node in recipe.strategies.items():
        for role in ("prefill", "decode") if strategy == "pd_cluster" else ("",):
            part = _at(node, role) if role else node
            if _list(_at(part, "extra_args")) or _list(_at(part, "vllm_args")):
                label = f"strategy {strategy} {role}".rstrip()
                yield _Choice(recipe, first, label, strategy=strategy, role=role)


def _hardware(recipe: _Recipe, variant: str) -> list[str]:
    """NVIDIA hardware for which the recipe or the variant adds something, and on which the variant runs."""
    of_variant = recipe.variants.get(variant)
    adding = (recipe.root, of_variant, recipe.strategies.get(recipe.strategy))
    named = [hardware for node in adding for hardware in _pairs(_at(node, _OVERRIDES))]
    return [one for one in dict.fromkeys(named) if _is_nvidia(one) and _runs_on(of_variant, one)]


def _runs_on(variant: Node | None, hardware: str) -> bool:
    """Whether the page offers a variant on this hardware: it may name its own, and FP4 takes Blackwell."""
    supported = _texts(_at(variant, "supported_hardware"))
    precision = _at(variant, "precision")
    needs_blackwell = isinstance(precision, Scalar) and precision.text in _ONLY_BLACKWELL
    if needs_blackwell and _at(variant, "precision_hardware") is None and _generation(hardware) == "hopper":
        return False
    alike = (
        one for one in supported if hardware in (one, _generation(one)) or (hardware == "nvidia" and _is_nvidia(one))
    )
    return not supported or any(alike)


def _is_nvidia(hardware: str) -> bool:
    return hardware == "nvidia" or bool(_generation(hardware))


def _generation(hardware: str) -> str:
    if hardware in GENERATIONS:
        return hardware
    return next((name for name, starts in GENERATIONS.items() if hardware.startswith(starts)), "")


def _modes(recipe: _Recipe, feature: str, first: str) -> Iterator[tuple[str, str]]:
    """Modes of a feature, each with a variant that has it; one nameless mode where it has none."""
    modes = _pairs(_at(recipe.features.get(feature), "modes"))
    if not modes:
        yield "", first
    for mode, node in modes.items():
        allowed = _texts(_at(node, "variants"))
        yield mode, first if not allowed or first in allowed else allowed[0]


def _launch(choice: _Choice, source: Source) -> Launch | None:
    recipe, variant = choice.recipe, choice.of_variant
    model = _at(variant, "model_id") or recipe.root.at("model", "model_id")
    if not isinstance(model, Scalar):
        return None
    layers = list(_layers(choice))
    tokens = [LaunchToken(text, model.span, "made", False) for text in ("vllm", "serve", model.text)]
    arguments = [token for layer in layers for token in _arguments(layer)]
    env = [one for layer in layers for key in ("base_env", "extra_env", "env") for one in _variables(_at(layer, key))]
    size = _size(choice)
    tokens += _last_wins([*size, *arguments])
    remarks: tuple[Remark, ...] = ()
    if choice.strategy and choice.strategy != STRATEGY:
        key = recipe.root.key("strategy_overrides")
        message = f"what strategies/{choice.strategy}.yaml adds is not in this file"
        remarks = (Remark("not_read", message, key.span if key else None),)
    return Launch(source, "recipe", choice.label, tuple(tokens), tuple(env), hints=_hints(choice), remarks=remarks)


def _layers(choice: _Choice) -> Iterator[Node]:
    """The mappings whose arguments and variables count, in the order in which the page appends them."""
    recipe, variant = choice.recipe, choice.of_variant
    strategy = recipe.strategies.get(choice.strategy or recipe.strategy)
    names = (_generation(choice.hardware) or choice.hardware, "nvidia") if choice.hardware else ()
    exact = choice.hardware if choice.hardware not in names else ""
    replaced = _first(strategy, names)
    general, own = _first(recipe.root, names), _first(variant, names)
    layers: list[Node | None] = [recipe.root.get("model"), variant, _at(variant, _OVERRIDES, exact), strategy]
    layers += [_at(strategy, choice.role)] if choice.role else []
    layers += [general, own] if replaced is None else [replaced]
    layers += [_at(strategy, _OVERRIDES, exact)]
    for layer in layers:
        if layer is not None:
            yield layer
    for name, feature in recipe.features.items():
        if name not in recipe.opt_in or name == choice.feature:
            yield from _feature(choice, feature, names)


def _first(node: Node | None, names: tuple[str, ...]) -> Node | None:
    """What a node adds for the first of these kinds of hardware that it names."""
    return next((found for name in names if (found := _at(node, _OVERRIDES, name)) is not None), None)


def _feature(choice: _Choice, feature: Node, names: tuple[str, ...]) -> Iterator[Node]:
    strategies = _texts(_at(feature, "strategies"))
    if strategies and (choice.strategy or choice.recipe.strategy) not in strategies:
        return
    modes = _pairs(_at(feature, "modes"))
    chosen: Node = feature
    if modes:
        default = _at(feature, "default_mode")
        name = choice.mode or (default.text if isinstance(default, Scalar) else "")
        chosen = modes.get(name) or next(iter(modes.values()))
    for name in (choice.hardware, *names):
        of_hardware = _at(chosen, _OVERRIDES, name) if name else None
        if of_hardware is not None and _at(of_hardware, "args") is not None:
            yield of_hardware
            return
    yield chosen


def _arguments(layer: Node) -> Iterator[LaunchToken]:
    for key in ("base_args", "extra_args", "vllm_args", "args"):
        node = _at(layer, key)
        if isinstance(node, Items):
            style = "flow" if node.flow else "item"
            yield from (LaunchToken(one.text, one.span, style) for one in node.items if isinstance(one, Scalar))


def _last_wins(tokens: Sequence[LaunchToken]) -> list[LaunchToken]:
    """The page keeps the last of an option that is written the same way, with its value."""
    units: list[list[LaunchToken]] = []
    for token in tokens:
        follows = units and len(units[-1]) == 1 and units[-1][0].text.startswith("-")
        if follows and not token.text.startswith("-"):
            units[-1].append(token)
        else:
            units.append([token])
    last = {unit[0].text: index for index, unit in enumerate(units)}
    kept = [u for index, u in enumerate(units) if not u[0].text.startswith("-") or last[u[0].text] == index]
    return [token for unit in kept for token in unit]


def _size(choice: _Choice) -> list[LaunchToken]:
    """The tensor parallel size where the recipe says it; else the page takes it from the hardware."""
    if (choice.strategy or choice.recipe.strategy) != STRATEGY:
        return []
    for node in (_at(choice.of_variant, "tp"), _at(choice.recipe.strategies.get(STRATEGY), "tp")):
        for name in (choice.hardware, _generation(choice.hardware), "nvidia", "default"):
            value = node if isinstance(node, Scalar) else _at(node, name) if name else None
            if isinstance(value, Scalar) and value.text.isdigit():
                return [LaunchToken(text, value.span, "made", False) for text in (PARALLEL, value.text)]
    return []


def _size_remark(root: Mapping) -> Remark:
    key = root.key("model")
    message = "the page takes --tensor-parallel-size from the hardware that is chosen; it is left out here"
    return Remark("unknown_value", message, key.span if key else None, "check the line that the page gives")


def _variables(node: Node | None) -> Iterator[EnvVariable]:
    if isinstance(node, Mapping):
        for key, value in node.items:
            known = value.text if isinstance(value, Scalar) and not value.text.startswith("$") else None
            yield EnvVariable(key.text, known, value.span)


def _hints(choice: _Choice) -> Hints:
    image = _at(choice.of_variant, "docker_image") or choice.recipe.root.at("model", "docker_image")
    if isinstance(image, Mapping):
        image = image.get("nvidia")
    gpu = _gpu(choice)
    name = GPUS.get(gpu.text) if gpu is not None else None
    hints = Hints(gpu=name, gpu_span=gpu.span if gpu is not None and name else None)
    if not isinstance(image, Scalar):
        return hints
    release = release_of(image.text)
    return hints._replace(image=image.text, release=release, release_span=image.span if release else None)


def _gpu(choice: _Choice) -> Scalar | None:
    """The GPU that is chosen; for a generation the first of it on which the recipe was tried."""
    if not choice.hardware:
        return None
    for places in (choice.recipe.root.at("meta", "hardware"), _at(choice.of_variant, _OVERRIDES)):
        for key, _ in places.items if isinstance(places, Mapping) else []:
            if key.text in GPUS and choice.hardware in (key.text, _generation(key.text), "nvidia"):
                return key
    return None


def _pairs(node: Node | None) -> dict[str, Node]:
    return {key.text: value for key, value in node.items} if isinstance(node, Mapping) else {}


def _list(node: Node | None) -> Iterable[Node]:
    return node.items if isinstance(node, Items) else ()


def _texts(node: Node | None) -> list[str]:
    return [item.text for item in _list(node) if isinstance(item, Scalar)]


def _at(node: Node | None, *path: str) -> Node | None:
    return node.at(*path) if isinstance(node, Mapping) else None
