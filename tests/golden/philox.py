"""Philox4x32-10 in plain Python integers, after the paper, and the draws that clnet documents on top of it.

Paper: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

WORD = 0xFFFFFFFF


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Four words from four counter words and two key words: ten rounds of two 32 × 32 bit products."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & WORD, (a >> 32) ^ c3 ^ k1, a & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


class Draws:
    """The successive draws of a layer (or of a key and a first counter): one counter a draw, one block number four
    words.
    """

    def __init__(self, key: Any, counter: int = 0) -> None:
        self.key, self.counter = tuple(int(w) for w in np.ravel(key)), counter

    def blocks(self, n: int) -> list[list[int]]:
        """The four words of each of ⌈n / 4⌉ blocks, word by word: the first words of all blocks, then the second, ...
        """
        found = [philox((i, self.counter, 0, 0), self.key) for i in range(-(-n // 4))]
        self.counter += 1
        return [list(words) for words in zip(*found, strict=True)] if found else [[]] * 4

    def words(self, shape: Any) -> np.ndarray[Any, Any]:
        n = math.prod(shape)
        return np.concatenate([np.array(w, np.uint64) for w in self.blocks(n)])[:n].reshape(shape)

    def uniform(self, shape: Any) -> np.ndarray[Any, Any]:
        """U[0, 1) in steps of 2⁻²⁴, in float64."""
        return (self.words(shape) >> np.uint64(8)).astype(np.float64) * 2.0**-24

    def normal(self, shape: Any) -> np.ndarray[Any, Any]:
        """N(0, 1) by Box and Muller, in float64."""
        n, parts = math.prod(shape), []
        words = [np.array(w, np.uint64) for w in self.blocks(n)]
        unit = [(w >> np.uint64(8)).astype(np.float64) * 2.0**-24 for w in words]
        for a, b in (unit[:2], unit[2:]):
            radius, angle = np.sqrt(-2 * np.log(a + 2.0**-24)), 2 * np.pi * (b - 0.5)
            parts += [radius * np.cos(angle), radius * np.sin(angle)]
        return np.concatenate(parts)[:n].reshape(shape)
