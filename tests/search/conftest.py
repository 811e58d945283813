# SPDX-License-Identifier: MIT
"""A fit's first places are found once: with one parameter it takes scipy half a second to see that
no order is better than another.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import qmc

from gostlab.search import level_set

Asked = tuple[int, int, str]
FOUND: dict[Asked, tuple[np.ndarray, Any]] = {}  # the places, and where the generator is then
LatinHypercube = qmc.LatinHypercube


class Remembered:
    """A Latin hypercube that is drawn once from each state of a generator."""

    def __init__(self, parameters: int, seed: np.random.Generator, **how: Any) -> None:
        self.parameters, self.seed, self.how = parameters, seed, how

    def random(self, count: int) -> np.ndarray:
        asked = (self.parameters, count, str(self.seed.bit_generator.state))
        if asked not in FOUND:
            sampler = LatinHypercube(self.parameters, seed=self.seed, **self.how)
            FOUND[asked] = sampler.random(count), self.seed.bit_generator.state
        positions, self.seed.bit_generator.state = FOUND[asked]
        return positions.copy()


@pytest.fixture(autouse=True)
def _first_places_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_set.qmc, "LatinHypercube", Remembered)
