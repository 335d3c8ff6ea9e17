"""The synthetic decoder on a CPU: its parts make up the step, and its attention is attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cgplan.memory.profile.synthetic.shape import BLOCK, CONTEXT, DecoderShape

torch = pytest.importorskip("torch", reason="torch is not installed")

DENSE = DecoderShape(
    hidden=64, layers=3, heads=4, kv_heads=2, head_size=16, vocab=97, mlp=96, dtype="float32", max_tokens=8
)
EXPERTS = DecoderShape(
    hidden=64, layers=2, heads=4, kv_heads=2, head_size=16, vocab=97, mlp=0, dtype="float32", max_tokens=8,
    experts=4, expert_mlp=32, experts_per_token=2, shared_mlp=48,
)  # fmt: skip
WITH_HEAD = replace(DENSE, head=True)


def decoder(shape: DecoderShape, reduce: Any = None) -> Any:
    from cgplan.memory.profile.synthetic.decoder import Decoder

    made = Decoder(shape, torch.device("cpu"), reduce)
    made.kernel = None  # Triton's kernel needs a GPU
    return made


def elements(made: Any) -> int:
    tensors = [made.embedding, made.norm]
    if made.head is not None and made.head is not made.embedding:
        tensors.append(made.head)
    for layer in made.layers:
        named = {name: value for name, value in layer._asdict().items() if name not in ("keys", "values", "bias")}
        tensors += [value for value in named.values() if value is not None]
    return sum(tensor.numel() for tensor in tensors)


@pytest.mark.parametrize("shape", [DENSE, EXPERTS, WITH_HEAD, replace(WITH_HEAD, tied=True)])
def test_the_weights_are_as_many_as_the_shape_says(shape: DecoderShape) -> None:
    assert elements(decoder(shape)) == shape.parameters


def test_the_cache_is_as_large_as_the_shape_says() -> None:
    made = decoder(DENSE)
    held = sum(tensor.numel() * 4 for layer in made.layers for tensor in (layer.keys, layer.values))
    assert held == DENSE.kv_bytes


def test_the_parts_between_the_attentions_make_up_the_step() -> None:
    made = decoder(DENSE)
    with torch.inference_mode():
        made.step(5)
        whole = made.hidden[:5].clone()
        between = made.first(5)
        for number in range(DENSE.layers):
            made.attend(number, between)
            between = made.after(number, between)
    assert torch.equal(made.hidden[:5], whole)
    assert bool(torch.isfinite(whole).all())
    assert float(whole.abs().sum()) > 0


def test_a_token_does_not_depend_on_how_many_others_there_are() -> None:
    """Requests share no state but the cache, whose blocks they all see alike."""
    made = decoder(DENSE)
    for layer in made.layers:  # all requests look at the same block
        layer.keys.normal_()
        layer.values.normal_()
    made.table.zero_()
    made.slots.fill_(CONTEXT + 3)
    made.ids.fill_(7)
    with torch.inference_mode():
        made.step(8)
        several = made.hidden[0].clone()
        made.step(1)
    assert torch.allclose(made.hidden[0], several, atol=1e-5)


def test_paged_attention_is_attention_over_the_blocks_of_the_table() -> None:
    from cgplan.memory.profile.synthetic.attention import paged_attention

    torch.manual_seed(0)
    query = torch.randn(2, 4, 16)
    keys, values = torch.randn(32, BLOCK, 2, 16), torch.randn(32, BLOCK, 2, 16)
    table = torch.randperm(32)[: 2 * CONTEXT // BLOCK].view(2, -1).int()
    output = torch.empty_like(query)
    paged_attention(query, keys, values, table, CONTEXT, output, None)
    for token in range(2):
        k = keys[table[token].long()].reshape(-1, 2, 16)
        v = values[table[token].long()].reshape(-1, 2, 16)
        for head in range(4):
            weights = torch.softmax(k[:, head // 2] @ query[token, head] / 4.0, 0)
            assert torch.allclose(output[token, head], weights @ v[:, head // 2], atol=1e-5)


def test_ranks_sum_twice_a_layer() -> None:
    sums: list[Any] = []
    made = decoder(DENSE, lambda tensor: sums.append(tuple(tensor.shape)))
    with torch.inference_mode():
        made.step(4)
    assert sums == [(4, DENSE.hidden)] * (2 * DENSE.layers)


def test_without_a_gpu_it_says_so() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from cgplan import InputError
    from cgplan.memory.profile.device import look

    with pytest.raises(InputError) as caught:
        look()
    assert caught.value.code == "CG991"
    assert "--dry-run" in str(caught.value.fix)


def test_the_output_head_gives_a_logit_for_each_word() -> None:
    made = decoder(WITH_HEAD)
    with torch.inference_mode():
        made.step(5)
    assert made.logits.shape == (8, 97)
    assert torch.allclose(made.logits[:5], made.hidden[:5] @ made.head.t(), atol=1e-5)
    assert float(made.logits[:5].abs().sum()) > 0
    assert float(made.logits[5:].abs().sum()) == 0
    assert decoder(DENSE).logits is None
