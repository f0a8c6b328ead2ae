"""The embedded model and its problem sets: how they were made, trained and measured."""
