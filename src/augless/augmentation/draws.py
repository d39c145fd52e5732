"""Random draws that are functions of a key, so that no order of work can change them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Key = tuple[int, ...]


def generator(key: Key) -> np.random.Generator:
    """Return a generator of its own for a key."""
    return np.random.Generator(np.random.Philox(key=np.frombuffer(_hash(key), np.uint64)))


def number(key: Key) -> int:
    """Return an integer from 0 to below 2^31 for a key."""
    return int.from_bytes(_hash(key)[:4], "little") >> 1


def gumbels(key: Key, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return standard Gumbel noise for each id, (N,) -> (N,), whatever else is asked for.

    The id with the largest logit plus noise is a draw from the softmax of the logits. As each id
    has its own noise, the draw does not depend on the order or the number of candidates.
    """
    noise: NDArray[np.float64] = many_gumbels([key], ids[None])[0]
    return noise


def many_gumbels(keys: Sequence[Key], ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the noise of `gumbels` for several keys at once, with ids (M, N) -> (M, N)."""
    base = np.frombuffer(b"".join(_hash(key)[:8] for key in keys), np.uint64)[:, None]
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        x = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + base
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        x ^= x >> np.uint64(31)
    uniform = ((x >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


def _hash(key: Key) -> bytes:
    return hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
