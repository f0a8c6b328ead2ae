"""Train a model to aggregate: STaR on the prompts of Recursive Self-Aggregation
(docs/learn_to_aggregate.md)."""
