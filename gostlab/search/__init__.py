"""Searches over paths: ./lab fit and ./lab worst.

`fit` finds the paths (loss, buffer, rate, memory) whose runs give measured rates, judges them on
rates that it was not fitted on, and keeps every path that fits as well. `worst` asks an optimiser
for the path on which a congestion control does worst by one metric, and runs it again with other
seeds.
"""
