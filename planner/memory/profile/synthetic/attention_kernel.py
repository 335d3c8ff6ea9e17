"""The Triton kernel of `attention`. Its own module, as a kernel is compiled from the source of its module."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def decode_attention(
    query, keys, values, table, output, length, table_stride, query_stride, output_stride, block_stride, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a token and KV head; its rows are the query heads that share the KV head."""
    token = tl.program_id(0)
    kv_head = tl.program_id(1)
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows[:, None] < GROUP) & (columns[None, :] < SIZE)
    place = (kv_head * GROUP + rows[:, None]) * SIZE + columns[None, :]
    q = tl.load(query + token * query_stride + place, mask=inside, other=0.0)
    highest = tl.full([ROWS], -1.0e30, tl.float32)
    summed = tl.zeros([ROWS], tl.float32)
    found = tl.zeros([ROWS, WIDTH], tl.float32)
    slots = tl.arange(0, BLOCK)
    for start in range(0, length, BLOCK):
        block = tl.load(table + token * table_stride + start // BLOCK).to(tl.int64)
        base = block * block_stride + (slots[:, None] * KV_HEADS + kv_head) * SIZE + columns[None, :]
        known = columns[None, :] < SIZE
        k = tl.load(keys + base, mask=known, other=0.0)
        v = tl.load(values + base, mask=known, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        above = tl.maximum(highest, tl.max(scores, 1))
        shrink = tl.exp(highest - above)
        weights = tl.exp(scores - above[:, None])
        summed = summed * shrink + tl.sum(weights, 1)
        found = found * shrink[:, None] + tl.dot(weights.to(v.dtype), v)
        highest = above
    found = found / summed[:, None]
    tl.store(output + token * output_stride + place, found.to(output.dtype.element_ty), mask=inside)
