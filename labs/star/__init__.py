"""STaR (Zelikman et al. 2022, arXiv 2203.14465): train a model on its own right solutions, round by
round."""
