"""Plans of runs: methods x seeds x corpora, resumable.

::

    plan = trials.Plan.load("demo")
    trial = trials.run(plan, root="trials/demo", jobs=2)
    summary = trials.summarise(trial)

Every finished run leaves a `Record`, small enough to commit; a run whose record is there counts as
done on any machine. Hyper-parameters are chosen on the validation set alone, and the test set is
decoded once by each final run.
"""

from augless.errors import Failure
from augless.trials.facts import Attempt, Choice, Score
from augless.trials.forecast import Forecast, Measured, forecast
from augless.trials.graph import Job
from augless.trials.ownfiles import languages_of, monolingual, own
from augless.trials.plans import BadPlan, Base, Method, Plan, Range, shipped
from augless.trials.records import BadRecord, Entry, Record, Trial
from augless.trials.running import Running, Status, collect, run
from augless.trials.summary import Contrast, Overall, Result, SeedsNeeded, Summary, alarm, summarise

__all__ = [
    "Attempt",
    "BadPlan",
    "BadRecord",
    "Base",
    "Choice",
    "Contrast",
    "Entry",
    "Failure",
    "Forecast",
    "Job",
    "Measured",
    "Method",
    "Overall",
    "Plan",
    "Range",
    "Record",
    "Result",
    "Running",
    "Score",
    "SeedsNeeded",
    "Status",
    "Summary",
    "Trial",
    "alarm",
    "collect",
    "forecast",
    "languages_of",
    "monolingual",
    "own",
    "run",
    "shipped",
    "summarise",
]
