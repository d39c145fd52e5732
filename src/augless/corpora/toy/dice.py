"""Chance for the generated corpora: the same on every machine and under every Python."""

from collections.abc import Sequence
from typing import TypeVar

Value = TypeVar("Value")
_MASK = (1 << 64) - 1


class Dice:
    """A stream of draws from a seed (splitmix64), whole numbers only."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        """Draw a number from 0 to bound - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % bound

    def chance(self, percent: int) -> bool:
        """Say yes so often."""
        return self.below(100) < percent

    def pick(self, values: Sequence[Value]) -> Value:
        """Pick one, all alike."""
        return values[self.below(len(values))]

    def pick_early(self, values: Sequence[Value]) -> Value:
        """Pick one, the earlier the likelier: words of a language are not used alike."""
        if self.chance(6):
            return self.pick(values)
        reach = self.below(len(values)) + 1
        if self.chance(80):
            reach = self.below(reach) + 1
        return values[self.below(reach)]

    def weigh(self, weights: dict[Value, int]) -> Value:
        """Pick one by weights."""
        left = self.below(sum(weights.values()))
        for value, weight in weights.items():
            left -= weight
            if left < 0:
                return value
        raise AssertionError
