"""Details of the generator: requests and replies, retries, rate limits, the budget, the journal."""
