"""The functions and modules of losses by name: those of the package, and those that the lab keeps for comparison."""

import mgce_lab.losses
from mgce import functional, losses

FUNCTIONS = {name: getattr(functional, name) for name in functional.__all__}
MODULES = {name: getattr(losses, name) for name in losses.__all__}
for _name in mgce_lab.losses.__all__:
    (FUNCTIONS if _name.islower() else MODULES)[_name] = getattr(mgce_lab.losses, _name)
