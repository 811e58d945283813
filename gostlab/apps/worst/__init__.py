"""The search for the worst: on which path does a congestion control do worst?

./lab worst asks an optimiser for paths, runs them, and tells it how each went by one measure: the
share that is left to the congestion control, how full the bottleneck is, or the delay. What it
ends with is a path that is run again with other seeds, written as a profile.
"""
