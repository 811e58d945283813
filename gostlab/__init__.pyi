from gostlab.api import Experiment as Experiment
from gostlab.api import Progress as Progress
from gostlab.api import Result as Result
from gostlab.api import Results as Results
from gostlab.api import Run as Run
from gostlab.api import Running as Running
from gostlab.api import compare as compare
from gostlab.api import load as load
from gostlab.api import report as report
from gostlab.apps.fit.fitting import fit as fit
from gostlab.declared.errors import BadInput as BadInput
from gostlab.machine import MachineError as MachineError
from gostlab.results import SAMPLES as SAMPLES
from gostlab.results import ResultsError as ResultsError
from gostlab.setup.parts import MissingPart as MissingPart

__version__: str
PUBLIC: dict[str, str]
