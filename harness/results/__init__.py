"""Results: records, metrics, and the file that contains them."""
