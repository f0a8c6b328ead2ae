"""Strategies of LaTeX texts for Hypothesis."""

from hypothesis import strategies as st

# Texts of tokens that matter to the reader, which hit edges far more often than arbitrary
# characters.
TOKENS = r"""\boxed \boxed{ \fbox{ { } \{ \} \\ \ \text{ \textbf \left \right \, \! \; {,} , .
% \% $ \$ ^\circ ^ _ ° 0 00 7 42 1,024 -5 − + = x m+n \frac{1}{2} \frac12 /
( ) \circ or cm thousand"""
PIECES = st.sampled_from([*TOKENS.split(), " ", "\n", "\u2009", "\u200b", "\ud800"])
LATEX = st.lists(PIECES, max_size=25).map("".join)
TYPES = st.sampled_from(["integer", "math"])
