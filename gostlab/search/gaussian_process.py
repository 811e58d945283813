"""What the lab would say on a path that was not run, and how sure that is: a Gaussian process.

One per measured number, of the logarithm of its rate over the places of the free parameters
(Rasmussen and Williams 2006, chapters 2 and 5): a Matérn kernel of order 5/2 with a length for each
parameter, a constant, the noise of the runs, and an offset between short runs and whole ones that
is the same everywhere. Its few numbers are the most probable ones under weak priors.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

# The middle of a prior whose width is 1, of the logarithm: a parameter's length in places, the
# spread of ln(rate), the runs' noise. And how far from it each may come.
LENGTH, SPREAD, NOISE = np.log(0.5), np.log(1.0), np.log(0.02)
LENGTH_BOUNDS, OTHER_BOUNDS = (-2.5, 4.0), (-4.0, 3.0)
MIN_NOISE = 1e-3
CONSTANT_SD = 3.0
OFFSET_SD = 0.4  # of short runs' ln(rate) against whole ones'


class Surrogate:
    """The process that a number's runs suggest.

    places  n × parameters
    full    n: 1 where the run was of the full length, else 0
    values  n: ln(rate)
    """

    def __init__(self, places: np.ndarray, full: np.ndarray, values: np.ndarray) -> None:
        self._places, self._full = places, full
        self._middle = float(np.mean(values))
        self._off = values - self._middle
        count = places.shape[1]
        self._words = minimize(
            self._unlikely,
            np.zeros(count + 2),
            method="L-BFGS-B",
            bounds=[LENGTH_BOUNDS] * count + [OTHER_BOUNDS] * 2,
            options={"maxiter": 60},
        ).x
        self._factor = self._factored(self._words)
        self._weights = cho_solve(self._factor, self._off)

    def predict(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the noiseless ln(rate) of whole runs."""
        across = self._covariance(self._words, places, np.ones(len(places)))
        own = np.exp(2 * (SPREAD + self._words[-2])) + CONSTANT_SD**2 + OFFSET_SD**2
        variance = own - np.sum(across * cho_solve(self._factor, across), axis=0)
        return self._middle + across.T @ self._weights, np.maximum(variance, 1e-12)

    def _unlikely(self, words: np.ndarray) -> float:
        """Minus the logarithm of the posterior (Rasmussen and Williams, equation 2.30)."""
        factor = self._factored(words)
        likely = 0.5 * self._off @ cho_solve(factor, self._off) + np.log(np.diag(factor[0])).sum()
        return float(likely + 0.5 * words @ words)

    def _factored(self, words: np.ndarray) -> tuple[np.ndarray, bool]:
        matrix = self._covariance(words, self._places, self._full)
        matrix[np.diag_indices_from(matrix)] += np.exp(2 * (NOISE + words[-1])) + MIN_NOISE**2
        return cho_factor(matrix, lower=True)

    def _covariance(self, words: np.ndarray, places: np.ndarray, full: np.ndarray) -> np.ndarray:
        """Between what was run and other places: the function (4.17), the constant, the offset."""
        lengths = np.exp(LENGTH + words[:-2])
        apart = np.sqrt(5.0) * cdist(self._places / lengths, places / lengths)
        function = np.exp(2 * (SPREAD + words[-2]) - apart) * (1 + apart + apart**2 / 3)
        return np.asarray(function + CONSTANT_SD**2 + OFFSET_SD**2 * np.outer(self._full, full))
