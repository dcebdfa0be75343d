"""What the published papers say beside what runs of their experiments measure (docs/papers.md)."""
