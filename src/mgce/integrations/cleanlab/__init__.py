"""Find wrong labels by functions with the names and arguments of cleanlab's, which need pandas and no cleanlab.

There is one ranking and one set of suspects, those of :func:`mgce.find_suspects`. Arguments of cleanlab that cannot
change the result are accepted, and each function lists them. Arguments that would change it raise an error.
"""

from mgce.integrations.cleanlab.classification import CleanLearning as CleanLearning
from mgce.integrations.cleanlab.datalab import Datalab as Datalab
from mgce.integrations.cleanlab.issues import estimate_joint as estimate_joint
from mgce.integrations.cleanlab.issues import find_label_issues as find_label_issues
from mgce.integrations.cleanlab.issues import get_label_quality_scores as get_label_quality_scores
from mgce.integrations.cleanlab.issues import health_summary as health_summary
from mgce.integrations.cleanlab.issues import num_label_issues as num_label_issues
from mgce.integrations.cleanlab.multiannotator import get_active_learning_scores as get_active_learning_scores
from mgce.integrations.cleanlab.multiannotator import (
    get_label_quality_multiannotator as get_label_quality_multiannotator,
)
from mgce.integrations.cleanlab.multiannotator import get_majority_vote_label as get_majority_vote_label
