# SPDX-License-Identifier: MIT
from gostlab.api import Experiment as Experiment
from gostlab.api import Lab as Lab
from gostlab.api import Progress as Progress
from gostlab.api import Result as Result
from gostlab.api import Results as Results
from gostlab.api import Run as Run
from gostlab.api import Running as Running
from gostlab.api import compare as compare
from gostlab.api import load as load
from gostlab.api import report as report
from gostlab.errors import BadInput as BadInput
from gostlab.install.locate import MissingPart as MissingPart
from gostlab.plugin_check.check_steps import check_plugin as check_plugin
from gostlab.registry.palette import cc_colour as cc_colour
from gostlab.results import SAMPLES as SAMPLES
from gostlab.results import ResultsError as ResultsError
from gostlab.sandbox import MachineError as MachineError
from gostlab.search.fit_api import fit as fit

__version__: str
PUBLIC: dict[str, str]
