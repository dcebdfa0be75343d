"""Commands beside `run` and `plan`: building, testing, measuring, packing."""
