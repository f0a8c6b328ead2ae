"""STaR (Zelikman et al. 2022, arXiv 2203.14465): teach the model with what it got right, round by round."""
