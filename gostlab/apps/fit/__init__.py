"""The inverse question: given measured rates, which path makes the lab say the same?

./lab fit varies what nobody measured of a path (loss, buffer, rate, memory) until the lab's rates
are the measured ones, judges the result on numbers that it was not fitted on, and keeps all the
paths that fit as well, not one.
"""
