"""What the benchmarks share: Markdown tables, timing, taking up where a run stopped, and small charts."""
