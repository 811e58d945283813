# SPDX-License-Identifier: MIT
"""Predict the goodput on paths that were not run by a Gaussian process.

There is one process per measured number, for the logarithm of its rate over the positions of the
free parameters (Rasmussen and Williams 2006, chapters 2 and 5). Its covariance has a Matérn kernel
of order 5/2 with a length for each parameter, a constant, the noise of the runs, and a constant
offset between short and full-length runs. The hyperparameters maximise the posterior under weak
priors.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

# Means of the priors of the hyperparameters' logarithms, with standard deviation 1: length scale,
# standard deviation of ln(rate), noise of the runs. The bounds are relative to the means.
LENGTH, SPREAD, NOISE = np.log(0.5), np.log(1.0), np.log(0.02)
LENGTH_BOUNDS, OTHER_BOUNDS = (-2.5, 4.0), (-4.0, 3.0)
MIN_NOISE = 1e-3
CONSTANT_SD = 3.0
OFFSET_SD = 0.4  # standard deviation of ln(rate) of short runs relative to full-length runs


class Surrogate:
    """The process that a number's runs suggest.

    places  n × parameters
    full    n: 1 where the run was of the full length, else 0
    values  n: ln(rate)
    """

    def __init__(self, positions: np.ndarray, full: np.ndarray, values: np.ndarray) -> None:
        self._positions, self._full = positions, full
        self._middle = float(np.mean(values))
        self._off = values - self._middle
        count = positions.shape[1]
        self._hyper = minimize(
            self._negative_log_posterior,
            np.zeros(count + 2),
            method="L-BFGS-B",
            bounds=[LENGTH_BOUNDS] * count + [OTHER_BOUNDS] * 2,
            options={"maxiter": 60},
        ).x
        self._factor = self._factored(self._hyper)
        self._weights = cho_solve(self._factor, self._off)

    def predict(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the noiseless ln(rate) of full-length runs."""
        across = self._covariance(self._hyper, positions, np.ones(len(positions)))
        prior_variance = np.exp(2 * (SPREAD + self._hyper[-2])) + CONSTANT_SD**2 + OFFSET_SD**2
        variance = prior_variance - np.sum(across * cho_solve(self._factor, across), axis=0)
        return self._middle + across.T @ self._weights, np.maximum(variance, 1e-12)

    def _negative_log_posterior(self, hyper: np.ndarray) -> float:
        """Return the negative log posterior (Rasmussen and Williams, equation 2.30)."""
        factor = self._factored(hyper)
        likely = 0.5 * self._off @ cho_solve(factor, self._off) + np.log(np.diag(factor[0])).sum()
        return float(likely + 0.5 * hyper @ hyper)

    def _factored(self, hyper: np.ndarray) -> tuple[np.ndarray, bool]:
        matrix = self._covariance(hyper, self._positions, self._full)
        matrix[np.diag_indices_from(matrix)] += np.exp(2 * (NOISE + hyper[-1])) + MIN_NOISE**2
        return cho_factor(matrix, lower=True)

    def _covariance(self, hyper: np.ndarray, positions: np.ndarray, full: np.ndarray) -> np.ndarray:
        """Return the covariance of runs and positions: kernel (4.17), constant, offset."""
        lengths = np.exp(LENGTH + hyper[:-2])
        apart = np.sqrt(5.0) * cdist(self._positions / lengths, positions / lengths)
        function = np.exp(2 * (SPREAD + hyper[-2]) - apart) * (1 + apart + apart**2 / 3)
        return np.asarray(function + CONSTANT_SD**2 + OFFSET_SD**2 * np.outer(self._full, full))
