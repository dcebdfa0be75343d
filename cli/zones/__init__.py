"""Zone files: synthetic worlds, the root-like zone, and the plan of a hierarchy's zones."""
