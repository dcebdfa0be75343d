"""Configurations of the servers and resolvers under test, and of the kernel beside them."""
