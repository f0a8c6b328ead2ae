"""Tools that ask a model about each row of a problem file: for a marking scheme (schemes.py), for what is wrong with it
(filter.py). A tool is a prompt and a way to read the replies; tool.py is their command.
"""
