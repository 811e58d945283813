"""What the lab would say on a path that was not run, and how sure that is: a Gaussian process.

One per measured number, of the logarithm of its rate over the places of the free parameters
(Rasmussen and Williams 2006, chapters 2 and 5): a Matérn kernel of order 5/2 with a length for each
parameter, a constant, the noise of the runs, and an offset between short runs and whole ones that
is the same everywhere. Its few numbers are the most probable ones under weak priors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

# A parameter's length in places, the spread of ln(rate) and the runs' noise: the middle of a prior,
# and its width, both of the logarithm.
LENGTH, SPREAD, NOISE = (np.log(0.5), 1.0), (np.log(1.0), 1.0), (np.log(0.02), 1.0)
LEAST_NOISE = 1e-3
CONSTANT_SD = 3.0
OFFSET_SD = 0.4  # of short runs' ln(rate) against whole ones'
STARTS = ((0.0, 0.0, 0.0), (1.0, 0.5, -0.5))


def matern(first: np.ndarray, second: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The Matérn kernel of order 5/2 between places, 1 at no distance (Rasmussen and Williams,
    equation 4.17).
    """
    apart = (first[:, None, :] - second[None, :, :]) / lengths
    scaled = np.sqrt(5.0 * np.sum(apart * apart, axis=2))
    return (1.0 + scaled + scaled * scaled / 3.0) * np.exp(-scaled)


@dataclass(frozen=True)
class Surrogate:
    """A fitted process of one number."""

    places: np.ndarray  # n × parameters
    whole: np.ndarray  # n: 1 where the run was of the whole length, else 0
    lengths: np.ndarray
    spread: float
    noise: float  # of a run, in ln(rate)
    middle: float
    factor: tuple[np.ndarray, bool]
    weights: np.ndarray

    def kernel(self, first: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Covariances between what was run and whole runs at other places."""
        return covariance(self.places, self.whole, first, whole, self.lengths, self.spread)

    def predict(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the noiseless ln(rate) of whole runs."""
        across = self.kernel(places, np.ones(len(places)))
        mean = self.middle + across.T @ self.weights
        own = self.spread**2 + CONSTANT_SD**2 + OFFSET_SD**2
        variance = own - np.sum(across * cho_solve(self.factor, across), axis=0)
        return mean, np.maximum(variance, 1e-12)

    def draw(self, places: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Functions that may be the true one, at these places: a row for each row of standard
        normal numbers.
        """
        ones = np.ones(len(places))
        across = self.kernel(places, ones)
        mean = self.middle + across.T @ self.weights
        own = covariance(places, ones, places, ones, self.lengths, self.spread)
        joint = own - across.T @ cho_solve(self.factor, across)
        values, vectors = np.linalg.eigh((joint + joint.T) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(mean + random @ root.T)


def covariance(
    first: np.ndarray,
    first_whole: np.ndarray,
    second: np.ndarray,
    second_whole: np.ndarray,
    lengths: np.ndarray,
    spread: float,
) -> np.ndarray:
    """Of ln(rate) at places: the function, the constant, and the whole runs' offset."""
    shared = CONSTANT_SD**2 + OFFSET_SD**2 * np.outer(first_whole, second_whole)
    return np.asarray(spread**2 * matern(first, second, lengths) + shared)


def fit_surrogate(places: np.ndarray, whole: np.ndarray, values: np.ndarray) -> Surrogate:
    """The process that a number's runs suggest. values: ln(rate)."""
    count, parameters = places.shape
    middle = float(np.mean(values))
    off = values - middle
    widths = np.array([LENGTH[1]] * parameters + [SPREAD[1], NOISE[1]])
    squares = (places[:, None, :] - places[None, :, :]) ** 2
    shared = CONSTANT_SD**2 + OFFSET_SD**2 * np.outer(whole, whole)

    def unpack(words: np.ndarray) -> tuple[np.ndarray, float, float]:
        return (
            np.exp(LENGTH[0] + words[:parameters]),
            float(np.exp(SPREAD[0] + words[parameters])),
            float(np.exp(NOISE[0] + words[parameters + 1])),
        )

    def loss(words: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the logarithm of the posterior, and its gradient (Rasmussen and Williams,
        equations 2.30 and 5.9).
        """
        lengths, spread, noise = unpack(words)
        scaled = np.sqrt(5.0 * np.sum(squares / lengths**2, axis=2))
        decay = np.exp(-scaled)
        shape = spread**2 * (1.0 + scaled + scaled * scaled / 3.0) * decay
        matrix = shape + shared + (noise**2 + LEAST_NOISE**2) * np.eye(count)
        factor = cho_factor(matrix, lower=True)
        weights = cho_solve(factor, off)
        likely = 0.5 * off @ weights + np.sum(np.log(np.diag(factor[0])))
        slope = 0.5 * (cho_solve(factor, np.eye(count)) - np.outer(weights, weights))
        by_length = slope * (spread**2 * 5.0 / 3.0 * (1.0 + scaled) * decay)
        gradient = np.array(
            [
                *(
                    np.sum(by_length * squares[:, :, k]) / lengths[k] ** 2
                    for k in range(parameters)
                ),
                2.0 * np.sum(slope * shape),
                2.0 * noise**2 * np.trace(slope),
            ]
        )
        prior = 0.5 * np.sum((words / widths) ** 2)
        return float(likely + prior), gradient + words / widths**2

    found = min(
        (
            minimize(
                loss,
                np.array([start[0]] * parameters + list(start[1:])),
                jac=True,
                method="L-BFGS-B",
                bounds=[(-2.5, 4.0)] * parameters + [(-4.0, 3.0), (-4.0, 3.0)],
                options={"maxiter": 60},
            )
            for start in STARTS
        ),
        key=lambda each: each.fun,
    )
    lengths, spread, noise = unpack(found.x)
    matrix = covariance(places, whole, places, whole, lengths, spread)
    matrix[np.diag_indices(count)] += noise**2 + LEAST_NOISE**2
    factor = cho_factor(matrix, lower=True)
    return Surrogate(places, whole, lengths, spread, noise, middle, factor, cho_solve(factor, off))
