# SPDX-License-Identifier: MIT
"""Offer gostlab as functions and classes: describe, run, read, draw, compare.

The command line (gostlab.cli.main) parses arguments, calls these and prints what they return;
scripts use the stable part as `import gostlab`. Nothing here prints, ends the process or sets a
signal handler. Errors are BadInput (the request is impossible), MissingPart and MachineError (this
machine cannot do it), ResultsError and OSError.
"""

from gostlab.api.expectations import judge, write_junit
from gostlab.api.experiment import Experiment, Progress, Run, Running, run_together
from gostlab.api.lab import Lab
from gostlab.api.plan import Plan, refusal_line
from gostlab.api.report import (
    compare,
    find_runs_by_name,
    report,
    select_experiments,
    write_run_page,
)
from gostlab.api.requirements import (
    add_cc,
    add_gost,
    add_kernel,
    congestion_controls,
    gosts,
    kernels,
    missing_parts,
    provide_parts,
    remove_cc,
    remove_gost,
    remove_kernel,
    temporary_cc,
)
from gostlab.api.results import Results, load
from gostlab.api.run import (
    Gathered,
    PartsAndStandby,
    cell_results,
    contest_cells,
    execute_run_file,
    run_starter,
)
from gostlab.results import SAMPLES
from gostlab.results.run_result import RunResult as Result
