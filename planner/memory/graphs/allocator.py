"""How torch's caching allocator lays out the private pool of CUDA graphs: whole segments, best fit, splits and merges.

A pool only grows while graphs are captured, so what it holds in the end is what its segments add up to. Whether a
freed block is whole when the next layer asks for it decides between one copy of a large buffer and two.

Source: c10/cuda/CUDACachingAllocator.cpp of torch 2.11 (round_size, get_allocation_size, should_split).
"""

from __future__ import annotations

from ..estimates import MIB

_UNIT = 512
_SMALL = MIB
_SMALL_SEGMENT = 2 * MIB
_LARGE_SEGMENT = 20 * MIB
_OWN_SEGMENT = 10 * MIB
_SEGMENT_MULTIPLE = 2 * MIB


class Block:
    """A piece of a segment; `before` and `after` are its neighbours there."""

    __slots__ = ("after", "before", "is_free", "is_small", "size")

    def __init__(self, size: int, is_small: bool) -> None:
        self.size = size
        self.is_small = is_small
        self.is_free = True
        self.before: Block | None = None
        self.after: Block | None = None


PoolState = tuple[tuple[tuple[int, bool, int], ...], tuple[tuple[int, bool, int], ...]]
"""The small and the large blocks of a Pool, in the order in which they are looked through: size, whether free, and the
number of the block after it, -1 where it is its segment's last."""

EMPTY: PoolState = ((), ())


class Pool:
    """A pool of one capture stream.

    Attributes:
        reserved: bytes of all segments.
    """

    def __init__(self, state: PoolState = EMPTY) -> None:
        self._blocks = {True: _placed(state[0], True), False: _placed(state[1], False)}
        self.reserved = sum(block.size for blocks in self._blocks.values() for block in blocks)

    @property
    def state(self) -> PoolState:
        """Its blocks. A pool made of them behaves as this one; blocks that are in use there stay so for good."""
        return _listed(self._blocks[True]), _listed(self._blocks[False])

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes; a new segment where no free block is large enough."""
        size = max(_UNIT, -(-size // _UNIT) * _UNIT)
        is_small = size <= _SMALL
        best: Block | None = None
        for block in self._blocks[is_small]:
            if block.is_free and block.size >= size and (best is None or block.size < best.size):
                best = block
        if best is None:
            best = self._segment(size, is_small)
        self._split(best, size)
        best.is_free = False
        return best

    def give(self, block: Block) -> None:
        """Take `block` back, and join it with free neighbours."""
        block.is_free = True
        after, before = block.after, block.before
        if after is not None and after.is_free:
            self._absorb(block, after)
        if before is not None and before.is_free:
            self._absorb(before, block)

    def _segment(self, size: int, is_small: bool) -> Block:
        if is_small:
            length = _SMALL_SEGMENT
        elif size < _OWN_SEGMENT:
            length = _LARGE_SEGMENT
        else:
            length = -(-size // _SEGMENT_MULTIPLE) * _SEGMENT_MULTIPLE
        self.reserved += length
        block = Block(length, is_small)
        self._blocks[is_small].append(block)
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest < _UNIT or (not block.is_small and rest <= _SMALL):
            return
        other = Block(rest, block.is_small)
        other.before, other.after = block, block.after
        if block.after is not None:
            block.after.before = other
        block.after, block.size = other, size
        self._blocks[block.is_small].append(other)

    def _absorb(self, block: Block, after: Block) -> None:
        block.size += after.size
        block.after = after.after
        if after.after is not None:
            after.after.before = block
        self._blocks[block.is_small].remove(after)


def _placed(listed: tuple[tuple[int, bool, int], ...], is_small: bool) -> list[Block]:
    blocks = []
    for size, is_free, _ in listed:
        block = Block(size, is_small)
        block.is_free = is_free
        blocks.append(block)
    for block, (_, _, after) in zip(blocks, listed, strict=True):
        if after >= 0:
            block.after, blocks[after].before = blocks[after], block
    return blocks


def _listed(blocks: list[Block]) -> tuple[tuple[int, bool, int], ...]:
    number = {id(block): at for at, block in enumerate(blocks)}
    return tuple((b.size, b.is_free, -1 if b.after is None else number[id(b.after)]) for b in blocks)
