"""From an experiment to its plan: the only place where command lines are composed."""
