"""What the lab does, as functions and classes: describe, run, read, draw, compare.

For the command line (gostlab.apps.cli), which reads words, calls these and prints what they return,
and for scripts, which have the stable part of it as `import gostlab`. Nothing here prints, ends the
process or sets a signal's handler. Errors are BadInput (what was asked cannot be), MissingPart and
MachineError (this machine cannot do it), ResultsError and OSError.
"""

from gostlab.api.experiment import Experiment as Experiment
from gostlab.api.experiment import Progress as Progress
from gostlab.api.experiment import Result as Result
from gostlab.api.experiment import Run as Run
from gostlab.api.experiment import Running as Running
from gostlab.api.loaded import Results as Results
from gostlab.api.loaded import load as load
from gostlab.api.making import Gathered as Gathered
from gostlab.api.making import contests as contests
from gostlab.api.making import execute as execute
from gostlab.api.making import starter as starter
from gostlab.api.making import summary as summary
from gostlab.api.parts import add_cc as add_cc
from gostlab.api.parts import add_gost as add_gost
from gostlab.api.parts import add_kernel as add_kernel
from gostlab.api.parts import borrowed_cc as borrowed_cc
from gostlab.api.parts import congestion_controls as congestion_controls
from gostlab.api.parts import gost_lines as gost_lines
from gostlab.api.parts import kernel_lines as kernel_lines
from gostlab.api.parts import kernel_version as kernel_version
from gostlab.api.parts import missing_parts as missing_parts
from gostlab.api.parts import provide_parts as provide_parts
from gostlab.api.parts import remove_cc as remove_cc
from gostlab.api.parts import remove_gost as remove_gost
from gostlab.api.parts import remove_kernel as remove_kernel
from gostlab.api.plan import Plan as Plan
from gostlab.api.plan import refusal as refusal
from gostlab.api.prompt import shell as shell
from gostlab.api.reading import changes_table as changes_table
from gostlab.api.reading import compare as compare
from gostlab.api.reading import docs_pages as docs_pages
from gostlab.api.reading import open_run as open_run
from gostlab.api.reading import report as report
from gostlab.api.reading import reported as reported
from gostlab.api.reading import site as site
from gostlab.results import SAMPLES as SAMPLES
