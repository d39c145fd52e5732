"""The human evaluation: a blind page out, ratings and agreement in.

::

    design = survey.design(systems, sources, references, survey.Options(items=200))
    made = survey.Survey.create("survey", design)
    ...                                                  # people rate: augless survey serve survey
    tally = survey.tally(survey.Survey.open("survey"))
    print(survey.exports.text(tally))

`designing` fixes what is shown to whom in which order; `folder` keeps it; `serving` (the extra
`survey`) and `pages` show it; `store` keeps what was rated; `tallying` counts it; `joining` puts it
beside a trial.
"""

from augless.survey.designing import (
    REFERENCE,
    SCALES,
    BadOptions,
    BadSurvey,
    Design,
    Gold,
    Options,
    Scale,
    design,
    giveaways,
    gold,
    scales,
)
from augless.survey.folder import Survey
from augless.survey.tallying import Tally, tally

__all__ = [
    "REFERENCE",
    "SCALES",
    "BadOptions",
    "BadSurvey",
    "Design",
    "Gold",
    "Options",
    "Scale",
    "Survey",
    "Tally",
    "design",
    "giveaways",
    "gold",
    "scales",
    "tally",
]
