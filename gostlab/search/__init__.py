# SPDX-License-Identifier: MIT
"""Search over network paths: `./lab fit` and `./lab worst`.

`fit` finds the paths (loss, buffer, rate, memory) whose runs reproduce measured rates, validates
them with rates that were not fitted, and keeps every path that fits equally well. `worst` uses an
optimiser to find the path on which a congestion control has the worst value of a metric, and
repeats that run with other seeds.
"""
